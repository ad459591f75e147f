/* Requests and their responses on a socket, while other threads run.

   From Python the same takes three calls, and after each the thread waits until it may run Python again: a fetcher would
   stand still, with the response there, until the application is out of messages. connection.py does the same where
   this was not built, one response at a time.

   The kernel's own time-out (SO_RCVTIMEO) begins anew with each call, such as the one after a signal. So a call waits in
   the kernel only as long as that ends before the deadline, and later by a poll for what is left, which costs more.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "../message/_messages.h"

enum {
    SIZE_BYTES = 4,
    CODE_BYTES = 2,        /* the error number at the beginning of each response */
    OFFSET_FROM_END = 12,  /* where a fetch request has its offset: int64, and an int32 after it */
    WAIT_VALUE_BYTES = 8,  /* how long to wait, and for what, at the end of what may follow a fetch request */
    OFFSET_BYTES = 8,
    MESSAGE_OVERHEAD_BYTES = 10, /* of magic 1 */
    PRODUCE_PARTS = 4,
    MOST_PARTS = 1024, /* that one system call takes */
    SMALL_PRODUCE_BYTES = 4096, /* copied into one piece, which the kernel takes sooner than four */
    MOST_SETS = 16,        /* that one call fetches */
    MOST_KEPT_BYTES = 31 * 1024 * 1024, /* the C library's own limit is 32 MiB */
    MOST_WAIT_MS = 1000000000
};

/* How far an exchange has come; one that a signal interrupts goes on from there. */
typedef struct {
    int fd;
    double ends_s;  /* by CLOCK_MONOTONIC */
    double waits_s; /* the socket's own time-out */
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

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Wait until the socket is ready. A signal ends that, so that Python sees it. */
static Outcome
await_ready(const Exchange *exchange, short events)
{
    double left_ms = (exchange->ends_s - now_s()) * 1000;
    if (!(left_ms > 0)) {
        errno = ETIMEDOUT;
        return FAILED;
    }
    struct pollfd waited = {.fd = exchange->fd, .events = events};
    int ready = poll(&waited, 1, left_ms < MOST_WAIT_MS ? (int)left_ms + 1 : MOST_WAIT_MS);
    if (ready == 0) {
        errno = EINTR; /* too soon, or too late: the next call says which */
    }
    return ready > 0 ? DONE : FAILED;
}

/* Send what the socket takes just now. */
static Outcome
send_some(Exchange *exchange)
{
    ssize_t sent = send(exchange->fd, exchange->request, (size_t)exchange->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? DONE : FAILED;
    }
    exchange->request += sent;
    exchange->unsent -= sent;
    return DONE;
}

static Outcome
send_request(Exchange *exchange)
{
    while (exchange->unsent) {
        if (send_some(exchange) != DONE || (exchange->unsent && await_ready(exchange, POLLOUT) != DONE)) {
            return FAILED;
        }
    }
    return DONE;
}

/* Requests in several parts, of which those from `at` on are still to be sent. */
typedef struct {
    Exchange exchange;
    struct iovec *parts;
    Py_ssize_t at, count, sent;
} Parts;

static Outcome
send_parts(Parts *parts)
{
    while (parts->at < parts->count) {
        Py_ssize_t left_parts = parts->count - parts->at;
        struct msghdr message = {
            .msg_iov = parts->parts + parts->at,
            .msg_iovlen = (size_t)(left_parts < MOST_PARTS ? left_parts : MOST_PARTS),
        };
        ssize_t sent = sendmsg(parts->exchange.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            return FAILED;
        }
        size_t left = sent > 0 ? (size_t)sent : 0;
        parts->sent += (Py_ssize_t)left;
        while (parts->at < parts->count && left >= parts->parts[parts->at].iov_len) {
            left -= parts->parts[parts->at++].iov_len;
        }
        if (parts->at == parts->count) {
            break;
        }
        struct iovec *part = parts->parts + parts->at;
        part->iov_base = (char *)part->iov_base + left;
        part->iov_len -= left;
        if (await_ready(&parts->exchange, POLLOUT) != DONE) {
            return FAILED;
        }
    }
    return DONE;
}

/* Receive some of what is missing, and wait for more if that is not all. */
static Outcome
receive(const Exchange *exchange, struct iovec *into, size_t areas, Py_ssize_t wanted, Py_ssize_t *received)
{
    struct msghdr message = {.msg_iov = into, .msg_iovlen = areas};
    int may_wait = now_s() + exchange->waits_s <= exchange->ends_s;
    ssize_t got = recvmsg(exchange->fd, &message, may_wait ? MSG_WAITALL : MSG_DONTWAIT);
    if (got == 0) {
        return ENDED;
    }
    if (got > 0) {
        *received += got;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        return FAILED;
    }
    return got == wanted ? DONE : await_ready(exchange, POLLIN);
}

/* Go on until the response is there, or its size if that is too small, or there is no room for it. */
static Outcome
proceed(Exchange *exchange)
{
    Outcome outcome = send_request(exchange);
    Py_ssize_t missing;
    while (outcome == DONE && (missing = SIZE_BYTES - exchange->size_field_bytes)) {
        struct iovec area = {exchange->size_field + exchange->size_field_bytes, (size_t)missing};
        outcome = receive(exchange, &area, 1, missing, &exchange->size_field_bytes);
    }
    if (outcome != DONE) {
        return outcome;
    }
    exchange->size = (int32_t)big_endian(exchange->size_field);
    if (exchange->size < 1 || exchange->size < exchange->code_bytes || exchange->size > exchange->room) {
        return NO_ROOM;
    }
    while (outcome == DONE && (missing = exchange->size - exchange->received)) {
        Py_ssize_t in_code = exchange->received < exchange->code_bytes ? exchange->received : exchange->code_bytes;
        Py_ssize_t in_body = exchange->received - in_code;
        struct iovec areas[2] = {
            {exchange->code + in_code, (size_t)(exchange->code_bytes - in_code)},
            {exchange->body + in_body, (size_t)(exchange->size - exchange->code_bytes - in_body)},
        };
        outcome = receive(exchange, areas, 2, missing, &exchange->received);
    }
    return outcome;
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
exchange_send(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Exchange exchange = {0};
    Py_buffer request;
    if (!PyArg_ParseTuple(arguments, "iy*d:send", &exchange.fd, &request, &exchange.ends_s)) {
        return NULL;
    }
    exchange.request = request.buf;
    exchange.unsent = request.len;
    Outcome outcome;
    int is_interrupted = 0;
    do {
        Py_BEGIN_ALLOW_THREADS
        outcome = send_request(&exchange);
        Py_END_ALLOW_THREADS
    } while (outcome == FAILED && errno == EINTR && !(is_interrupted = PyErr_CheckSignals() < 0));
    PyBuffer_Release(&request);
    if (outcome == DONE) {
        Py_RETURN_NONE;
    }
    if (!is_interrupted) {
        raise_for(&exchange, outcome);
    }
    return NULL;
}

/* Note on the exception how much of a request was sent before it. */
static void
note_sent(Py_ssize_t sent)
{
    PyObject *type, *error, *traceback, *bytes = PyLong_FromSsize_t(sent);
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (bytes == NULL || error == NULL || PyObject_SetAttrString(error, "characters_written", bytes) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(bytes);
    PyErr_Restore(type, error, traceback);
}

static PyObject *
exchange_send_all(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *tuple;
    Parts parts = {.at = 0};
    if (!PyArg_ParseTuple(arguments, "iO!d:send_all", &parts.exchange.fd, &PyTuple_Type, &tuple,
                          &parts.exchange.ends_s)) {
        return NULL;
    }
    parts.count = PyTuple_Size(tuple);
    parts.parts = PyMem_Malloc((size_t)(parts.count + 1) * sizeof(struct iovec));
    if (parts.parts == NULL) {
        return PyErr_NoMemory();
    }
    int is_interrupted = 0;
    for (Py_ssize_t i = 0; i < parts.count && !is_interrupted; i++) {
        char *bytes;
        Py_ssize_t size;
        is_interrupted = PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &bytes, &size) < 0;
        parts.parts[i] = (struct iovec){bytes, (size_t)size};
    }
    Outcome outcome = FAILED;
    if (!is_interrupted) {
        do {
            Py_BEGIN_ALLOW_THREADS
            outcome = send_parts(&parts);
            Py_END_ALLOW_THREADS
        } while (outcome == FAILED && errno == EINTR && !(is_interrupted = PyErr_CheckSignals() < 0));
    }
    if (outcome != DONE && !is_interrupted) {
        raise_for(&parts.exchange, outcome);
        note_sent(parts.sent);
    }
    PyMem_Free(parts.parts);
    if (outcome != DONE) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The message's CRC stands at the end of what comes before its payload. */
static void
put_crc(Parts *parts)
{
    struct iovec before = parts->parts[PRODUCE_PARTS - 2], payload = parts->parts[PRODUCE_PARTS - 1];
    put_big_endian((unsigned char *)before.iov_base + before.iov_len - CRC_BYTES,
                   crc32_of(payload.iov_base, payload.iov_len));
}

/* Send a produce whose CRC is missing, and let other threads run meanwhile. */
static Outcome
produce_parts(Parts *parts, int *is_interrupted)
{
    Outcome outcome;
    int is_begun = 0;
    do {
        Py_BEGIN_ALLOW_THREADS
        if (!is_begun) {
            put_crc(parts);
            is_begun = 1;
        }
        outcome = send_parts(parts);
        Py_END_ALLOW_THREADS
    } while (outcome == FAILED && errno == EINTR && !(*is_interrupted = PyErr_CheckSignals() < 0));
    return outcome;
}

/* The same with a small one. Others run only if it has to wait: else that would cost as much as what is done here. */
static Outcome
produce_small(Parts *parts, int *is_interrupted)
{
    char frame[SMALL_PRODUCE_BYTES];
    Exchange *exchange = &parts->exchange;
    exchange->request = frame;
    put_crc(parts);
    for (int i = 0; i < PRODUCE_PARTS; i++) {
        memcpy(frame + exchange->unsent, parts->parts[i].iov_base, parts->parts[i].iov_len);
        exchange->unsent += (Py_ssize_t)parts->parts[i].iov_len;
    }
    Outcome outcome = send_some(exchange);
    while (outcome == DONE ? exchange->unsent > 0
                           : errno == EINTR && !(*is_interrupted = PyErr_CheckSignals() < 0)) {
        Py_BEGIN_ALLOW_THREADS
        outcome = send_request(exchange);
        Py_END_ALLOW_THREADS
    }
    return outcome;
}

static PyObject *
exchange_produce(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyBytes_CheckExact(args[1]) || !PyBytes_CheckExact(args[3])) {
        PyErr_SetString(PyExc_TypeError, "produce() takes a socket, a topic, a partition, a payload and a time");
        return NULL;
    }
    struct iovec four[PRODUCE_PARTS];
    Parts parts = {
        .exchange = {.fd = (int)PyLong_AsLong(args[0]), .ends_s = PyFloat_AsDouble(args[4])},
        .parts = four,
        .count = PRODUCE_PARTS,
    };
    int is_beyond;
    long long partition = PyLong_AsLongLongAndOverflow(args[2], &is_beyond);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t topic_bytes = PyBytes_Size(args[1]), payload_bytes = PyBytes_Size(args[3]);
    Py_ssize_t before_set = 2 + topic_bytes + 4 + 4; /* and after the size */
    if (is_beyond || partition < INT32_MIN || partition > INT32_MAX || topic_bytes > INT16_MAX ||
        payload_bytes > INT32_MAX - MESSAGE_OVERHEAD_BYTES - before_set) {
        Py_RETURN_FALSE;
    }
    unsigned char head[6], middle[8 + MESSAGE_OVERHEAD_BYTES];
    unsigned char *payload = (unsigned char *)PyBytes_AsString(args[3]);
    put_big_endian(head, (uint32_t)(before_set + MESSAGE_OVERHEAD_BYTES + payload_bytes));
    head[4] = head[5] = 0; /* produce */
    put_big_endian(middle, (uint32_t)(int32_t)partition);
    put_big_endian(middle + 4, (uint32_t)(MESSAGE_OVERHEAD_BYTES + payload_bytes));
    put_big_endian(middle + 8, (uint32_t)(MESSAGE_OVERHEAD_BYTES - SIZE_BYTES + payload_bytes));
    middle[12] = 1; /* magic */
    middle[13] = 0; /* attributes */
    four[0] = (struct iovec){head, sizeof head};
    four[1] = (struct iovec){PyBytes_AsString(args[1]), (size_t)topic_bytes};
    four[2] = (struct iovec){middle, sizeof middle};
    four[3] = (struct iovec){payload, (size_t)payload_bytes};
    int is_interrupted = 0;
    Outcome outcome = (Py_ssize_t)sizeof head + topic_bytes + (Py_ssize_t)sizeof middle + payload_bytes <=
                              SMALL_PRODUCE_BYTES
                          ? produce_small(&parts, &is_interrupted)
                          : produce_parts(&parts, &is_interrupted);
    if (outcome == DONE) {
        Py_RETURN_TRUE;
    }
    if (!is_interrupted) {
        raise_for(&parts.exchange, outcome);
    }
    return NULL;
}

static PyObject *
exchange_exchange(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Exchange exchange = {0};
    Py_buffer request;
    if (!PyArg_ParseTuple(arguments, "iy*ddn:exchange", &exchange.fd, &request, &exchange.ends_s,
                          &exchange.waits_s, &exchange.room)) {
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
    Py_ssize_t request_bytes, wait_bytes, set_bytes, most, done;
    PyObject *sets[MOST_SETS];
    char *bodies[MOST_SETS]; /* of the sets, for who does not hold the interpreter's lock */
    Py_ssize_t sizes[MOST_SETS], complete_bytes[MOST_SETS];
    int codes[MOST_SETS];
    double until_s; /* after that no further set is asked for: what has come is waited for */
} Fetch;

static void
begin(Fetch *fetch)
{
    Exchange *exchange = &fetch->exchange;
    exchange->request = fetch->request;
    exchange->unsent = fetch->request_bytes;
    exchange->size_field_bytes = 0;
    exchange->received = 0;
    exchange->body = fetch->bodies[fetch->done];
}

/* Have the request ask for what comes that many bytes later, and wait for nothing: there is a set to hand out. */
static void
move_on(Fetch *fetch, Py_ssize_t bytes)
{
    unsigned char *at =
        (unsigned char *)fetch->request + fetch->request_bytes - fetch->wait_bytes - OFFSET_FROM_END;
    uint64_t offset = 0;
    for (int i = 0; i < OFFSET_BYTES; i++) {
        offset = offset << 8 | at[i];
    }
    offset += (uint64_t)bytes;
    for (int i = OFFSET_BYTES - 1; i >= 0; i--) {
        at[i] = (unsigned char)offset;
        offset >>= 8;
    }
    if (fetch->wait_bytes) {
        memset(fetch->request + fetch->request_bytes - WAIT_VALUE_BYTES, 0, WAIT_VALUE_BYTES);
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
            now_s() >= fetch->until_s) {
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

/* Have memory for sets used again. The GNU C library would give each set's back to the system when it is let go, and
   each page of the next one would be a fault, which costs more than to receive it. It stops that for what is smaller
   than a piece that was let go before, so one is, which is never touched; with any other C library nothing comes of it.
   Twice that much stays with the process: room for the sets that wait, the one that is read, and the next. */
static void
keep_memory_of(Py_ssize_t set_bytes, Py_ssize_t most)
{
    static Py_ssize_t kept_bytes = 0; /* guarded by the interpreter's lock */
    Py_ssize_t wanted_bytes = set_bytes < MOST_KEPT_BYTES / 2 / most ? 2 * most * set_bytes : MOST_KEPT_BYTES;
    if (wanted_bytes > kept_bytes) {
        kept_bytes = wanted_bytes;
        PyMem_Free(PyMem_Malloc((size_t)wanted_bytes));
    }
}

static PyObject *
exchange_fetch(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Fetch fetch = {0};
    Py_buffer request;
    int within_ms, is_sent;
    if (!PyArg_ParseTuple(arguments, "iy*ddnninp:fetch", &fetch.exchange.fd, &request, &fetch.exchange.ends_s,
                          &fetch.exchange.waits_s, &fetch.set_bytes, &fetch.most, &within_ms, &fetch.wait_bytes,
                          &is_sent)) {
        return NULL;
    }
    if (fetch.most > MOST_SETS) {
        fetch.most = MOST_SETS;
    }
    int is_ready = 0;
    if ((fetch.wait_bytes && fetch.wait_bytes < WAIT_VALUE_BYTES) || request.len - OFFSET_FROM_END < fetch.wait_bytes ||
        fetch.set_bytes < 0 || fetch.most < 1) {
        PyErr_Format(PyExc_ValueError, "%zd sets of %zd bytes by a request of %zd bytes", fetch.most, fetch.set_bytes,
                     request.len);
    } else if ((fetch.request = PyMem_Malloc((size_t)request.len)) == NULL) {
        PyErr_NoMemory();
    } else {
        memcpy(fetch.request, request.buf, (size_t)request.len);
        fetch.request_bytes = request.len;
        keep_memory_of(fetch.set_bytes, fetch.most);
        is_ready = 1;
        for (Py_ssize_t i = 0; i < fetch.most && is_ready; i++) {
            fetch.sets[i] = PyBytes_FromStringAndSize(NULL, fetch.set_bytes);
            is_ready = fetch.sets[i] != NULL && (fetch.bodies[i] = PyBytes_AsString(fetch.sets[i])) != NULL;
        }
    }
    PyBuffer_Release(&request);
    PyObject *result = NULL;
    if (is_ready) {
        Outcome outcome;
        int is_interrupted = 0;
        fetch.exchange.code_bytes = CODE_BYTES;
        fetch.exchange.room = CODE_BYTES + fetch.set_bytes;
        fetch.until_s = now_s() + within_ms / 1e3;
        begin(&fetch);
        if (is_sent) {
            fetch.exchange.unsent = 0;
        }
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

static PyObject *
exchange_crc32(PyObject *Py_UNUSED(module), PyObject *data)
{
    return crc_of_object(data, 0);
}

static PyMethodDef methods[] = {
    {"send_all", exchange_send_all, METH_VARARGS, "Send parts of requests, one behind the other."},
    {"send", exchange_send, METH_VARARGS, "Send a request."},
    {"produce", (PyCFunction)(void (*)(void))exchange_produce, METH_FASTCALL, "Send a produce of one message, or say that Python is to do it."},
    {"crc32", exchange_crc32, METH_O, "Return the CRC-32 that is sent."},
    {"exchange", exchange_exchange, METH_VARARGS, "Return a response, or its size and nothing of it if it has no room."},
    {"fetch", exchange_fetch, METH_VARARGS, "Return (error code, set, bytes of whole messages) of fetches in a row."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *Py_UNUSED(module))
{
    prepare_crc();
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.wire._exchange",
    .m_doc = "Requests and their responses on a socket, while other threads run.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__exchange(void)
{
    return PyModuleDef_Init(&definition);
}
