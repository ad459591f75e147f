/* What a broker receives, as runs of produces: what FrameReader, decode_request and MessageChecker do for a plain one.

       size int32 | type int16 = 0 | topic: length int16, ASCII | partition int32 | set size int32 | set     (big-endian)

   A run is whole frames of this form back to back, all for one partition, whose sets are not empty and hold nothing but
   good uncompressed messages of allowed size. Runs end before whatever else there is: other requests, faults, the
   beginning of a frame. Python looks at those, so that every rule about them stands in one place.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../../message/_messages.h"

enum {
    SIZE_BYTES = 4,
    TYPE_BYTES = 2,
    TOPIC_SIZE_BYTES = 2,
    PARTITION_BYTES = 4,
    SET_SIZE_BYTES = 4,
    BEFORE_TOPIC_BYTES = SIZE_BYTES + TYPE_BYTES + TOPIC_SIZE_BYTES,
    MOST_RUNS = 1024 /* so that one call has an end soon */
};

/* One plain produce: the bytes before its set, those of its topic, its set, and what that holds. */
typedef struct {
    Py_ssize_t head, topic, set, messages;
} Produce;

typedef struct {
    const unsigned char *data; /* from the frame's size on */
    Py_ssize_t start, end, set, sets, messages;
    Produce first;
} ProduceRun;

static inline Py_ssize_t
topic_bytes(const unsigned char *at)
{
    return at[SIZE_BYTES + TYPE_BYTES] << 8 | at[SIZE_BYTES + TYPE_BYTES + 1];
}

static int
is_ascii(const unsigned char *at, Py_ssize_t size)
{
    unsigned char all = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        all |= at[i];
    }
    return all < 0x80;
}

/* Find the plain produce that stands there; a head of 0 if none does. */
static Produce
plain_produce(const unsigned char *at, Py_ssize_t left, Py_ssize_t max_frame, Py_ssize_t max_payload)
{
    const Produce none = {0, 0, 0, 0};
    if (left < BEFORE_TOPIC_BYTES) {
        return none;
    }
    uint32_t size = big_endian(at);
    if (size > INT32_MAX || (Py_ssize_t)size > max_frame || (Py_ssize_t)size > left - SIZE_BYTES) {
        return none;
    }
    Py_ssize_t topic = topic_bytes(at);
    Py_ssize_t head = BEFORE_TOPIC_BYTES + topic + PARTITION_BYTES + SET_SIZE_BYTES;
    Py_ssize_t set = SIZE_BYTES + (Py_ssize_t)size - head;
    if (at[SIZE_BYTES] || at[SIZE_BYTES + 1] || topic > INT16_MAX || set <= 0) {
        return none;
    }
    const unsigned char *after = at + BEFORE_TOPIC_BYTES + topic;
    if (big_endian(after) > INT32_MAX || big_endian(after + PARTITION_BYTES) != (uint32_t)set ||
        !is_ascii(at + BEFORE_TOPIC_BYTES, topic)) {
        return none;
    }
    Run run = {0, 0, 0, 0};
    extend(&run, at + head, set, set, -1);
    return run.end == set && run.largest <= max_payload ? (Produce){head, topic, set, run.messages} : none;
}

/* Find the run that begins at a position; one without an end there if none does. */
static ProduceRun
next_run(const unsigned char *data, Py_ssize_t position, Py_ssize_t filled, Py_ssize_t max_frame,
         Py_ssize_t max_payload)
{
    ProduceRun run = {.start = position, .end = position, .first = {0, 0, 0, 0}};
    const unsigned char *first = data + position + SIZE_BYTES;
    for (;;) {
        const unsigned char *at = data + run.end;
        if (run.sets) {
            Py_ssize_t same = run.first.head - SIZE_BYTES - SET_SIZE_BYTES;
            if (filled - run.end < run.first.head || memcmp(at + SIZE_BYTES, first, (size_t)same)) {
                return run;
            }
        }
        Produce found = plain_produce(at, filled - run.end, max_frame, max_payload);
        if (!found.head) {
            return run;
        }
        if (!run.sets) {
            run.first = found;
        }
        run.end += found.head + found.set;
        run.set += found.set;
        run.messages += found.messages;
        run.sets++;
    }
}

/* Add a run to the list: (topic, partition, start, end, start of its first set, bytes of all sets, sets, messages). */
static int
add_run(PyObject *runs, const unsigned char *data, const ProduceRun *run)
{
    const unsigned char *topic = data + run->start + BEFORE_TOPIC_BYTES;
    PyObject *added = Py_BuildValue("(s#innnnnn)", (const char *)topic, run->first.topic,
                                    (int)big_endian(topic + run->first.topic), run->start, run->end,
                                    run->start + run->first.head, run->set, run->sets, run->messages);
    if (added == NULL) {
        return -1;
    }
    int outcome = PyList_Append(runs, added);
    Py_DECREF(added);
    return outcome;
}

/* Find all runs from `end` on, where the position is written at which they end. */
static PyObject *
find_runs(const unsigned char *data, Py_ssize_t filled, Py_ssize_t max_frame, Py_ssize_t max_payload, Py_ssize_t *end)
{
    PyObject *runs = PyList_New(0);
    for (int i = 0; runs != NULL && i < MOST_RUNS; i++) {
        ProduceRun run = next_run(data, *end, filled, max_frame, max_payload);
        if (!run.sets) {
            break;
        }
        if (add_run(runs, data, &run) < 0) {
            Py_CLEAR(runs);
        }
        *end = run.end;
    }
    return runs;
}

/* Say whether the beginning of a frame that was kept is still just that. */
static int
is_unfinished(const unsigned char *kept, Py_ssize_t kept_bytes, Py_ssize_t received)
{
    return kept_bytes >= SIZE_BYTES && (Py_ssize_t)big_endian(kept) > kept_bytes - SIZE_BYTES + received;
}

static PyObject *
receive_receive(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    int fd;
    Py_buffer buffer, kept;
    Py_ssize_t most, max_frame, max_payload;
    if (!PyArg_ParseTuple(arguments, "iw*y*nnn:receive", &fd, &buffer, &kept, &most, &max_frame, &max_payload)) {
        return NULL;
    }
    PyObject *result = NULL;
    unsigned char *data = buffer.buf;
    ssize_t received = -1;
    if (most > buffer.len - kept.len) {
        most = buffer.len - kept.len;
    }
    if (most < 1) {
        PyErr_Format(PyExc_ValueError, "no room for %zd bytes behind %zd in a buffer of %zd", most, kept.len,
                     buffer.len);
        goto done;
    }
    do {
        Py_BEGIN_ALLOW_THREADS
        received = recv(fd, data + kept.len, (size_t)most, MSG_DONTWAIT);
        Py_END_ALLOW_THREADS
    } while (received < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    if (received < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            result = Py_None;
            Py_INCREF(result);
        } else if (!PyErr_Occurred()) {
            PyErr_SetFromErrno(PyExc_OSError);
        }
        goto done;
    }
    if (is_unfinished(kept.buf, kept.len, received)) {
        result = Py_BuildValue("(nnnO)", (Py_ssize_t)received, kept.len, kept.len + received, Py_None);
        goto done;
    }
    memcpy(data, kept.buf, (size_t)kept.len);
    Py_ssize_t filled = kept.len + received, end = 0;
    PyObject *runs = find_runs(data, filled, max_frame, max_payload, &end);
    if (runs != NULL) {
        result = Py_BuildValue("(nnnN)", (Py_ssize_t)received, end, filled, runs);
    }
done:
    PyBuffer_Release(&kept);
    PyBuffer_Release(&buffer);
    return result;
}

/* Make room for `wanted` bytes behind those of an unfinished frame, which has `whole` bytes in all. What is allocated at
   once doubles, or most of the frame might be copied each time; it is never more than twice what has come, or `whole`. */
static int
make_room(PyObject *kept, Py_ssize_t filled, Py_ssize_t wanted, Py_ssize_t whole)
{
    Py_ssize_t capacity = filled < whole / 2 ? 2 * filled : whole;
    if (capacity > filled + wanted && PyByteArray_Resize(kept, capacity) < 0) {
        return -1;
    }
    return PyByteArray_Resize(kept, filled + wanted); /* which keeps what is allocated, if it gets smaller */
}

static PyObject *
receive_append(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    int fd, arrived = 0;
    PyObject *kept;
    Py_ssize_t most, whole;
    if (!PyArg_ParseTuple(arguments, "iO!nn:append", &fd, &PyByteArray_Type, &kept, &most, &whole)) {
        return NULL;
    }
    Py_ssize_t before = PyByteArray_Size(kept), filled = before;
    ssize_t received = 1;
    if (most > whole - before) {
        most = whole - before;
    }
    if (most < 1) {
        PyErr_Format(PyExc_ValueError, "no bytes are wanted behind %zd of %zd", before, whole);
        return NULL;
    }
    while (received > 0 && filled - before < most && ioctl(fd, FIONREAD, &arrived) == 0) {
        if (arrived < 1 && filled > before) {
            break;
        }
        /* A byte is asked for where none has come, to learn whether the connection has ended. */
        Py_ssize_t wanted = arrived < 1 ? 1 : arrived;
        if (wanted > most - (filled - before)) {
            wanted = most - (filled - before);
        }
        if (make_room(kept, filled, wanted, whole) < 0) {
            return NULL;
        }
        char *to = PyByteArray_AsString(kept) + filled;
        Py_BEGIN_ALLOW_THREADS
        received = recv(fd, to, (size_t)wanted, MSG_DONTWAIT);
        Py_END_ALLOW_THREADS
        if (received > 0) {
            filled += received;
        }
    }
    int error = errno;
    if (PyByteArray_Resize(kept, filled) < 0) {
        return NULL;
    }
    if (filled > before || received == 0) {
        return PyLong_FromSsize_t(filled - before);
    }
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
        Py_RETURN_NONE;
    }
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *
receive_runs(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer;
    Py_ssize_t start, filled, max_frame, max_payload;
    if (!PyArg_ParseTuple(arguments, "y*nnnn:runs", &buffer, &start, &filled, &max_frame, &max_payload)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (start < 0 || filled > buffer.len || start > filled) {
        PyErr_Format(PyExc_ValueError, "%zd to %zd lie not within a buffer of %zd", start, filled, buffer.len);
    } else {
        Py_ssize_t end = start;
        PyObject *runs = find_runs(buffer.buf, filled, max_frame, max_payload, &end);
        if (runs != NULL) {
            result = Py_BuildValue("(nN)", end, runs);
        }
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *
receive_join(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer buffer;
    Py_ssize_t start, end, joined = -1;
    if (!PyArg_ParseTuple(arguments, "w*nn:join", &buffer, &start, &end)) {
        return NULL;
    }
    unsigned char *data = buffer.buf;
    if (start >= 0 && end <= buffer.len) {
        Py_ssize_t position = start;
        while (position < end) {
            Py_ssize_t head = 0, left = end - position, set = 0;
            if (left >= BEFORE_TOPIC_BYTES) {
                head = BEFORE_TOPIC_BYTES + topic_bytes(data + position) + PARTITION_BYTES + SET_SIZE_BYTES;
                set = SIZE_BYTES + (Py_ssize_t)big_endian(data + position) - head;
            }
            if (!head || set < 0 || set > left - head) {
                joined = -1;
                break;
            }
            if (joined < 0) {
                joined = position + head;
            } else {
                memmove(data + joined, data + position + head, (size_t)set);
            }
            joined += set;
            position += head + set;
        }
    }
    PyBuffer_Release(&buffer);
    if (joined < 0) {
        PyErr_Format(PyExc_ValueError, "no run of produces stands from %zd to %zd", start, end);
        return NULL;
    }
    return PyLong_FromSsize_t(joined);
}

static PyObject *
receive_crc32(PyObject *Py_UNUSED(module), PyObject *data)
{
    return crc_of_object(data, 0);
}

static PyMethodDef methods[] = {
    {"receive", receive_receive, METH_VARARGS, "Return how many bytes came, and the runs of produces that begin them."},
    {"append", receive_append, METH_VARARGS, "Receive behind the beginning of a frame; return how many bytes came."},
    {"runs", receive_runs, METH_VARARGS, "Return where the runs of produces end that begin there, and these runs."},
    {"join", receive_join, METH_VARARGS, "Move the sets of a run behind its first one; return where they end."},
    {"crc32", receive_crc32, METH_O, "Return the CRC-32 by which messages are checked."},
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
    .m_name = "kafka2011.broker.requests._receive",
    .m_doc = "What a broker receives, as runs of produces; what is no such run is left to Python.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__receive(void)
{
    return PyModuleDef_Init(&definition);
}
