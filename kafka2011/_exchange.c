/* One request and its response on a blocking socket, while other threads run.

   From Python the same takes three calls, and after each the thread waits until it may run Python again: a fetcher would
   stand still, with the response there, until the application is out of messages. connection.py does the same where
   this was not built.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

enum { SIZE_BYTES = 4 };

/* How far an exchange has come; one that a signal interrupts goes on from there. */
typedef struct {
    int fd;
    const char *request;
    Py_ssize_t unsent;
    unsigned char size_field[SIZE_BYTES];
    Py_ssize_t size_field_bytes;
    char *response;
    Py_ssize_t room, size, received;
} Exchange;

typedef enum { DONE, NO_ROOM, ENDED, FAILED } Outcome;

/* Receive what is missing; as interrupted, too, where less came, since that may be a signal's doing. */
static Outcome
receive(int fd, void *into, Py_ssize_t wanted, Py_ssize_t *received)
{
    if (*received < wanted) {
        ssize_t got = recv(fd, (char *)into + *received, (size_t)(wanted - *received), MSG_WAITALL);
        if (got <= 0) {
            return got == 0 ? ENDED : FAILED;
        }
        *received += got;
        if (*received < wanted) {
            errno = EINTR;
            return FAILED;
        }
    }
    return DONE;
}

/* Go on until the response is there, or its size if that is none or there is no room for it. */
static Outcome
proceed(Exchange *exchange)
{
    if (exchange->unsent) {
        ssize_t sent = send(exchange->fd, exchange->request, (size_t)exchange->unsent, MSG_NOSIGNAL);
        if (sent < 0) {
            return FAILED;
        }
        exchange->request += sent;
        exchange->unsent -= sent;
        if (exchange->unsent) {
            errno = EINTR;
            return FAILED;
        }
    }
    Outcome outcome = receive(exchange->fd, exchange->size_field, SIZE_BYTES, &exchange->size_field_bytes);
    if (outcome != DONE) {
        return outcome;
    }
    const unsigned char *at = exchange->size_field;
    uint32_t size = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    exchange->size = (int32_t)size;
    if (exchange->size < 1 || exchange->size > exchange->room) {
        return NO_ROOM;
    }
    return receive(exchange->fd, exchange->response, exchange->size, &exchange->received);
}

static PyObject *
exchange_exchange(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Exchange exchange = {0};
    Py_buffer request;
    if (!PyArg_ParseTuple(arguments, "iy*n:exchange", &exchange.fd, &request, &exchange.room)) {
        return NULL;
    }
    PyObject *response = PyByteArray_FromStringAndSize(NULL, exchange.room);
    Outcome outcome = FAILED;
    int is_interrupted = response == NULL;
    if (response != NULL) {
        exchange.request = request.buf;
        exchange.unsent = request.len;
        exchange.response = PyByteArray_AsString(response);
        do {
            Py_BEGIN_ALLOW_THREADS
            outcome = proceed(&exchange);
            Py_END_ALLOW_THREADS
        } while (outcome == FAILED && errno == EINTR && !(is_interrupted = PyErr_CheckSignals() < 0));
    }
    PyBuffer_Release(&request);
    if (outcome == DONE) {
        if (PyByteArray_Resize(response, exchange.size) < 0) {
            Py_CLEAR(response);
        }
        return response;
    }
    if (outcome == FAILED && !is_interrupted) {
        PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_XDECREF(response);
    if (outcome == NO_ROOM) {
        return PyLong_FromSsize_t(exchange.size);
    }
    if (outcome == ENDED) {
        Py_ssize_t missing = SIZE_BYTES - exchange.size_field_bytes;
        if (!missing) {
            missing = exchange.size - exchange.received;
        }
        PyErr_Format(PyExc_ConnectionResetError, "the connection ended %zd bytes before the response did", missing);
    }
    return NULL;
}

static PyMethodDef methods[] = {
    {"exchange", exchange_exchange, METH_VARARGS, "Return a response, or its size and nothing of it if it has no room."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011._exchange",
    .m_doc = "One request and its response on a blocking socket, while other threads run.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__exchange(void)
{
    return PyModuleDef_Init(&definition);
}
