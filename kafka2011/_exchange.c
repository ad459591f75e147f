/* Requests and their responses on a blocking socket, while other threads run.

   From Python the same takes three calls, and after each the thread waits until it may run Python again: a fetcher would
   stand still, with the response there, until the application is out of messages. connection.py does the same where
   this was not built, one response at a time.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum {
    SIZE_BYTES = 4,
    CODE_BYTES = 2,        /* the error number at the beginning of each response */
    LENGTH_BYTES = 4,      /* of a message in a set, before what it counts */
    MIN_LENGTH = 5,        /* of any message: an empty one of magic 0 */
    OFFSET_FROM_END = 12,  /* where a fetch request has its offset: int64, and an int32 after it */
    OFFSET_BYTES = 8,
    MOST_SETS = 16
};

/* How far an exchange has come; one that a signal interrupts goes on from there. */
typedef struct {
    int fd;
    const char *request;
    Py_ssize_t unsent;
    unsigned char size_field[SIZE_BYTES];
    Py_ssize_t size_field_bytes;
    unsigned char code[CODE_BYTES];
    Py_ssize_t code_bytes; /* how many of the response's first bytes go there: all or none */
    char *body;
    Py_ssize_t room, size, received; /* of the response */
} Exchange;

typedef enum { DONE, NO_ROOM, ENDED, FAILED } Outcome;

/* Receive what is missing; as interrupted, too, where less came, since that may be a signal's doing. */
static Outcome
receive(int fd, struct iovec *into, size_t areas, Py_ssize_t wanted, Py_ssize_t *received)
{
    struct msghdr message = {.msg_iov = into, .msg_iovlen = areas};
    ssize_t got = recvmsg(fd, &message, MSG_WAITALL);
    if (got <= 0) {
        return got == 0 ? ENDED : FAILED;
    }
    *received += got;
    if (got < wanted) {
        errno = EINTR;
        return FAILED;
    }
    return DONE;
}

/* Go on until the response is there, or its size if that is too small, or there is no room for it. */
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
    Py_ssize_t missing = SIZE_BYTES - exchange->size_field_bytes;
    if (missing) {
        struct iovec area = {exchange->size_field + exchange->size_field_bytes, (size_t)missing};
        Outcome outcome = receive(exchange->fd, &area, 1, missing, &exchange->size_field_bytes);
        if (outcome != DONE) {
            return outcome;
        }
    }
    const unsigned char *at = exchange->size_field;
    uint32_t size = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    exchange->size = (int32_t)size;
    if (exchange->size < 1 || exchange->size < exchange->code_bytes || exchange->size > exchange->room) {
        return NO_ROOM;
    }
    missing = exchange->size - exchange->received;
    if (!missing) {
        return DONE;
    }
    Py_ssize_t in_code = exchange->received < exchange->code_bytes ? exchange->received : exchange->code_bytes;
    Py_ssize_t in_body = exchange->received - in_code;
    struct iovec areas[2] = {
        {exchange->code + in_code, (size_t)(exchange->code_bytes - in_code)},
        {exchange->body + in_body, (size_t)(exchange->size - exchange->code_bytes - in_body)},
    };
    return receive(exchange->fd, areas, 2, missing, &exchange->received);
}

/* Raise what an exchange failed by. */
static void
raise_for(const Exchange *exchange, Outcome outcome)
{
    if (outcome == FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
    } else if (outcome == ENDED) {
        Py_ssize_t missing = SIZE_BYTES - exchange->size_field_bytes;
        if (!missing) {
            missing = exchange->size - exchange->received;
        }
        PyErr_Format(PyExc_ConnectionResetError, "the connection ended %zd bytes before the response did", missing);
    }
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
        exchange.body = PyByteArray_AsString(response);
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
    if (!is_interrupted) {
        raise_for(&exchange, outcome);
    }
    Py_XDECREF(response);
    return outcome == NO_ROOM ? PyLong_FromSsize_t(exchange.size) : NULL;
}

/* ---- several sets in a row */

typedef struct {
    Exchange exchange; /* the one under way */
    char *request;
    Py_ssize_t request_bytes, set_bytes, most, done;
    PyObject *sets[MOST_SETS];
    Py_ssize_t sizes[MOST_SETS], complete_bytes[MOST_SETS];
    int codes[MOST_SETS];
    int64_t until_ns; /* after that no further set is asked for: what has come is waited for */
} Fetch;

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
begin(Fetch *fetch)
{
    Exchange *exchange = &fetch->exchange;
    exchange->request = fetch->request;
    exchange->unsent = fetch->request_bytes;
    exchange->size_field_bytes = 0;
    exchange->received = 0;
    exchange->body = PyBytes_AsString(fetch->sets[fetch->done]);
}

/* Return how many bytes whole messages take, as plain_python.py's function of that name. */
static Py_ssize_t
complete_prefix_bytes(const unsigned char *data, Py_ssize_t size)
{
    Py_ssize_t position = 0;
    while (size - position >= LENGTH_BYTES) {
        const unsigned char *at = data + position;
        uint32_t length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
        if (length < MIN_LENGTH || length > INT32_MAX || (Py_ssize_t)length > size - position - LENGTH_BYTES) {
            break;
        }
        position += LENGTH_BYTES + (Py_ssize_t)length;
    }
    return position;
}

/* Have the request ask for what comes that many bytes later. */
static void
move_on(Fetch *fetch, Py_ssize_t bytes)
{
    unsigned char *at = (unsigned char *)fetch->request + fetch->request_bytes - OFFSET_FROM_END;
    uint64_t offset = 0;
    for (int i = 0; i < OFFSET_BYTES; i++) {
        offset = offset << 8 | at[i];
    }
    offset += (uint64_t)bytes;
    for (int i = OFFSET_BYTES - 1; i >= 0; i--) {
        at[i] = (unsigned char)offset;
        offset >>= 8;
    }
}

/* Fetch until there are as many sets as wanted, or one that says that there is little more now, or time is up. */
static Outcome
fetch_on(Fetch *fetch)
{
    for (;;) {
        Outcome outcome = proceed(&fetch->exchange);
        if (outcome != DONE) {
            return outcome;
        }
        const Exchange *exchange = &fetch->exchange;
        Py_ssize_t bytes = exchange->size - CODE_BYTES;
        int code = (int16_t)(exchange->code[0] << 8 | exchange->code[1]);
        Py_ssize_t complete_bytes = complete_prefix_bytes((const unsigned char *)exchange->body, bytes);
        fetch->sizes[fetch->done] = bytes;
        fetch->codes[fetch->done] = code;
        fetch->complete_bytes[fetch->done] = complete_bytes;
        fetch->done++;
        if (fetch->done == fetch->most || code || bytes < fetch->set_bytes / 2 || !complete_bytes ||
            now_ns() >= fetch->until_ns) {
            return DONE;
        }
        move_on(fetch, complete_bytes);
        begin(fetch);
    }
}

/* Return the list of what was fetched, which takes sets over. */
static PyObject *
fetched_sets(Fetch *fetch, Outcome outcome)
{
    Py_ssize_t sizes = outcome == NO_ROOM ? 1 : 0;
    PyObject *list = PyList_New(fetch->done + sizes);
    for (Py_ssize_t i = 0; list != NULL && i < fetch->done; i++) {
        PyObject *set = fetch->sets[i];
        if (fetch->sizes[i] == fetch->set_bytes) {
            fetch->sets[i] = NULL;
        } else {
            set = PyBytes_FromStringAndSize(PyBytes_AsString(set), fetch->sizes[i]);
        }
        PyObject *fetched = set == NULL ? NULL : Py_BuildValue("(iNn)", fetch->codes[i], set, fetch->complete_bytes[i]);
        if (fetched == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SetItem(list, i, fetched);
        }
    }
    if (list != NULL && sizes) {
        PyObject *size = PyLong_FromSsize_t(fetch->exchange.size);
        if (size == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SetItem(list, fetch->done, size);
        }
    }
    return list;
}

static PyObject *
exchange_fetch(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Fetch fetch = {0};
    Py_buffer request;
    int within_ms;
    if (!PyArg_ParseTuple(arguments, "iy*nni:fetch", &fetch.exchange.fd, &request, &fetch.set_bytes, &fetch.most,
                          &within_ms)) {
        return NULL;
    }
    int is_ready = 0;
    if (request.len < OFFSET_FROM_END || fetch.set_bytes < 0 || fetch.most < 1 || fetch.most > MOST_SETS) {
        PyErr_Format(PyExc_ValueError, "%zd sets of %zd bytes by a request of %zd bytes", fetch.most, fetch.set_bytes,
                     request.len);
    } else if ((fetch.request = PyMem_Malloc((size_t)request.len)) == NULL) {
        PyErr_NoMemory();
    } else {
        memcpy(fetch.request, request.buf, (size_t)request.len);
        fetch.request_bytes = request.len;
        is_ready = 1;
        for (Py_ssize_t i = 0; i < fetch.most && is_ready; i++) {
            fetch.sets[i] = PyBytes_FromStringAndSize(NULL, fetch.set_bytes);
            is_ready = fetch.sets[i] != NULL;
        }
    }
    PyBuffer_Release(&request);
    PyObject *result = NULL;
    if (is_ready) {
        Outcome outcome;
        int is_interrupted = 0;
        fetch.exchange.code_bytes = CODE_BYTES;
        fetch.exchange.room = CODE_BYTES + fetch.set_bytes;
        fetch.until_ns = now_ns() + (int64_t)within_ms * 1000000;
        begin(&fetch);
        do {
            Py_BEGIN_ALLOW_THREADS
            outcome = fetch_on(&fetch);
            Py_END_ALLOW_THREADS
        } while (outcome == FAILED && errno == EINTR && !(is_interrupted = PyErr_CheckSignals() < 0));
        if (outcome == DONE || outcome == NO_ROOM) {
            result = fetched_sets(&fetch, outcome);
        } else if (!is_interrupted) {
            raise_for(&fetch.exchange, outcome);
        }
    }
    for (Py_ssize_t i = 0; i < MOST_SETS; i++) {
        Py_XDECREF(fetch.sets[i]);
    }
    PyMem_Free(fetch.request);
    return result;
}

static PyMethodDef methods[] = {
    {"exchange", exchange_exchange, METH_VARARGS, "Return a response, or its size and nothing of it if it has no room."},
    {"fetch", exchange_fetch, METH_VARARGS, "Return (error code, set, bytes of whole messages) of fetches in a row."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011._exchange",
    .m_doc = "Requests and their responses on a blocking socket, while other threads run.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__exchange(void)
{
    return PyModuleDef_Init(&definition);
}
