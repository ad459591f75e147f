/* Answers on their way to a socket, and whether sending on would wait for the disk.

   From Python each part takes a system call and half a dozen steps of the interpreter. sending.py does the same where
   this was not built.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define _GNU_SOURCE /* preadv2, syscall */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_parts.h"

static PyObject *
send_parts(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Part parts[MOST_PARTS];
    int out_fd, may_wait;
    PyObject *list;
    Py_ssize_t sent, until;
    if (!PyArg_ParseTuple(arguments, "iO!nnp:send_parts", &out_fd, &PyTuple_Type, &list, &sent, &until, &may_wait)) {
        return NULL;
    }
    Py_ssize_t count = take_parts(list, parts);
    if (count < 0) {
        return NULL;
    }
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = send_on(out_fd, parts, count, &sent, until, may_wait);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(ni)", sent, error);
}

static PyObject *
is_in_memory(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    int fd;
    long long position;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "iLn:is_in_memory", &fd, &position, &size)) {
        return NULL;
    }
    return PyBool_FromLong(is_there(fd, (off_t)position, size));
}

static PyMethodDef methods[] = {
    {"is_in_memory", is_in_memory, METH_VARARGS, "Say whether a piece of a file can be read without the disk."},
    {"send_parts", send_parts, METH_VARARGS, "Return how many bytes have gone by now, and why not more."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.broker.connections._send",
    .m_doc = "Bytes and pieces of files to a socket.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__send(void)
{
    return PyModuleDef_Init(&definition);
}
