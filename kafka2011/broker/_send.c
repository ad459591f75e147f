/* Answers on their way to a socket that does not block: bytes, and pieces of files by sendfile(2).

   From Python each part takes a system call and half a dozen steps of the interpreter. sending.py does the same where
   this was not built.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { MOST_PARTS = 64 };

typedef struct {
    const char *head;
    Py_ssize_t head_bytes;
    int fd;
    off_t position;
    Py_ssize_t size;
} Part;

/* Send on from where `*sent` bytes of all parts have gone, until everything has or `until` have, or an error comes.
   Return 0, or that error; -1 where a file ends early. */
static int
send_on(int out_fd, const Part *parts, Py_ssize_t count, Py_ssize_t *sent, Py_ssize_t until)
{
    Py_ssize_t before = 0; /* bytes of the parts before this one */
    for (Py_ssize_t i = 0; i < count; i++) {
        const Part *part = &parts[i];
        Py_ssize_t end = before + part->head_bytes + part->size;
        while (*sent < end) {
            if (*sent >= until) {
                return 0;
            }
            Py_ssize_t within = *sent - before;
            ssize_t done;
            if (within < part->head_bytes) {
                int is_last = i == count - 1 && !part->size;
                done = send(out_fd, part->head + within, (size_t)(part->head_bytes - within),
                            MSG_NOSIGNAL | MSG_DONTWAIT | (is_last ? 0 : MSG_MORE));
            } else {
                Py_ssize_t in_file = within - part->head_bytes;
                off_t at = part->position + in_file;
                Py_ssize_t left = part->size - in_file;
                done = sendfile(out_fd, part->fd, &at, (size_t)(left < until - *sent ? left : until - *sent));
                if (done == 0) {
                    return -1;
                }
            }
            if (done < 0) {
                return errno;
            }
            *sent += done;
        }
        before = end;
    }
    return 0;
}

static PyObject *
send_parts(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Part parts[MOST_PARTS];
    int out_fd;
    PyObject *list;
    Py_ssize_t sent, until;
    if (!PyArg_ParseTuple(arguments, "iO!nn:send_parts", &out_fd, &PyTuple_Type, &list, &sent, &until)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(list);
    if (count > MOST_PARTS) {
        return PyErr_Format(PyExc_ValueError, "%zd parts: at most %d are sent together", count, MOST_PARTS);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long long position;
        PyObject *head, *part = PyTuple_GetItem(list, i);
        if (!PyTuple_Check(part) ||
            !PyArg_ParseTuple(part, "SiLn:part", &head, &parts[i].fd, &position, &parts[i].size)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a part is a tuple");
            }
            return NULL;
        }
        parts[i].head = PyBytes_AsString(head); /* the tuple keeps it */
        parts[i].head_bytes = PyBytes_Size(head);
        parts[i].position = (off_t)position;
        if (parts[i].size < 0) {
            return PyErr_Format(PyExc_ValueError, "a part of %zd bytes", parts[i].size);
        }
    }
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = send_on(out_fd, parts, count, &sent, until);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(ni)", sent, error);
}

static PyMethodDef methods[] = {
    {"send_parts", send_parts, METH_VARARGS, "Return how many bytes have gone by now, and why not more."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.broker._send",
    .m_doc = "Bytes and pieces of files to a socket.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__send(void)
{
    return PyModuleDef_Init(&definition);
}
