/* Runs of uncompressed messages: what runs_python.py does, in C.

   A run is good messages of the forms in _messages.h, back to back. It ends before whatever else there is: compressed
   messages, faults, an end within a message. Python looks at those, so that every rule about them stands in one place.
   Of bytes that are no `bytes` it takes as much as it can treat like Python does, and else nothing.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_arguments.h"
#include "_stored.h" /* and with it _messages.h */

enum {
    HELD_BYTES = 64 * 1024 /* a run longer than that lets other threads run */
};

/* Return the run from a position on; a long one is walked without the interpreter's lock. */
static Run
find_run(const unsigned char *data, Py_ssize_t size, Py_ssize_t position, Py_ssize_t stop, Py_ssize_t max_messages)
{
    Run run = {position, 0, 0, 0};
    if (stop > size) {
        stop = size;
    }
    if (position < 0 || position >= stop) { /* which also keeps the difference in range */
        return run;
    }
    if (stop - position <= HELD_BYTES) {
        extend(&run, data, size, stop, max_messages);
        return run;
    }
    extend(&run, data, size, position + HELD_BYTES, max_messages);
    if (run.end >= position + HELD_BYTES) { /* else it ended before */
        Py_BEGIN_ALLOW_THREADS
        extend(&run, data, size, stop, max_messages);
        Py_END_ALLOW_THREADS
    }
    return run;
}

/* ---- functions */

static PyObject *
runs_encode(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t arguments)
{
    Py_ssize_t magic;
    if (expect("encode", arguments, 2) < 0 || read_sizes(args + 1, &magic, 1) < 0) {
        return NULL;
    }
    PyObject *payloads = args[0];
    if (!PyList_Check(payloads) || magic < 0 || magic > 1) {
        Py_RETURN_NONE;
    }
    Py_ssize_t overhead = OVERHEAD_BYTES + magic;
    Py_ssize_t count = PyList_Size(payloads), total = 0, largest = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *payload = PyList_GetItem(payloads, i); /* borrowed; nothing below runs Python code */
        if (!PyBytes_CheckExact(payload)) {
            Py_RETURN_NONE;
        }
        Py_ssize_t size = PyBytes_Size(payload);
        if (size > INT32_MAX - overhead || total > PY_SSIZE_T_MAX - overhead - size) {
            Py_RETURN_NONE;
        }
        total += overhead + size;
        if (size > largest) {
            largest = size;
        }
    }
    PyObject *encoded = PyBytes_FromStringAndSize(NULL, total);
    if (encoded == NULL) {
        return NULL;
    }
    unsigned char *at = (unsigned char *)PyBytes_AsString(encoded);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *payload = PyList_GetItem(payloads, i);
        const unsigned char *from = (const unsigned char *)PyBytes_AsString(payload);
        Py_ssize_t size = PyBytes_Size(payload);
        put_big_endian(at, (uint32_t)(size + overhead - LENGTH_BYTES));
        at[4] = (unsigned char)magic;
        at[5] = 0; /* the attributes, or a byte of the CRC that comes next */
        put_big_endian(at + overhead - CRC_BYTES, crc32_of(from, (size_t)size));
        memcpy(at + overhead, from, (size_t)size);
        at += overhead + size;
    }
    return Py_BuildValue("(Nn)", encoded, largest);
}

static PyObject *
runs_measure(PyObject *Py_UNUSED(module), PyObject *payloads)
{
    if (!PyList_Check(payloads)) {
        Py_RETURN_NONE;
    }
    Py_ssize_t count = PyList_Size(payloads), total = 0, largest = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *payload = PyList_GetItem(payloads, i); /* borrowed; nothing here runs Python code */
        if (!PyBytes_CheckExact(payload)) {
            Py_RETURN_NONE;
        }
        Py_ssize_t size = PyBytes_Size(payload);
        if (total > PY_SSIZE_T_MAX - size) {
            Py_RETURN_NONE;
        }
        total += size;
        if (size > largest) {
            largest = size;
        }
    }
    return Py_BuildValue("(nn)", total, largest);
}

static PyObject *
runs_walk(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[3]; /* position, stop, max_messages */
    Py_buffer data;
    if (expect("walk", count, 4) < 0 || read_sizes(args + 1, sizes, 3) < 0 ||
        PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Run run = {sizes[0], 0, 0, 0};
    if (data.itemsize == 1) {
        run = find_run(data.buf, data.len, sizes[0], sizes[1], sizes[2]);
    }
    PyBuffer_Release(&data);
    return Py_BuildValue("(nnn)", run.end, run.messages, run.largest);
}

/* Makes messages, tuples of a kind. Going by tuple's own `new` keeps each one the object that Python would make,
   whatever a version of Python keeps in a tuple; the tuple that it copies is used again, which is half of the cost. */
typedef struct {
    PyTypeObject *kind;
    PyObject *const *where; /* topic, broker_id, partition */
    PyObject *fields;       /* the tuple to copy */
    PyObject *arguments;    /* a tuple of that tuple */
} Maker;

static newfunc new_tuple;

static int
renew(Maker *maker)
{
    Py_CLEAR(maker->arguments);
    PyObject *fields = PyTuple_New(7);
    if (fields == NULL) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        Py_INCREF(maker->where[i]);
        PyTuple_SetItem(fields, i, maker->where[i]);
    }
    maker->fields = fields;
    maker->arguments = PyTuple_New(1);
    if (maker->arguments == NULL) {
        Py_DECREF(fields);
        return -1;
    }
    PyTuple_SetItem(maker->arguments, 0, fields);
    return 0;
}

/* Add a message to a list; takes over the objects given, which may be NULL for want of memory. */
static int
add_message(Maker *maker, PyObject *messages, PyObject *offset, PyObject *next_offset, PyObject *index,
            PyObject *payload)
{
    /* A callback of the garbage collector may have found the tuple, and keep it. */
    int is_shared = maker->arguments == NULL || Py_REFCNT(maker->fields) != 1 || Py_REFCNT(maker->arguments) != 1;
    if (offset == NULL || next_offset == NULL || index == NULL || payload == NULL || (is_shared && renew(maker) < 0)) {
        Py_XDECREF(offset);
        Py_XDECREF(next_offset);
        Py_XDECREF(index);
        Py_XDECREF(payload);
        return -1;
    }
    PyTuple_SetItem(maker->fields, 3, offset);
    PyTuple_SetItem(maker->fields, 4, next_offset);
    PyTuple_SetItem(maker->fields, 5, index);
    PyTuple_SetItem(maker->fields, 6, payload);
    PyObject *message = new_tuple(maker->kind, maker->arguments, NULL);
    if (message == NULL) {
        return -1;
    }
    int added = PyList_Append(messages, message);
    Py_DECREF(message);
    return added;
}

static int
is_kind_of_tuple(PyObject *kind)
{
    if (PyType_Check(kind) && PyType_IsSubtype((PyTypeObject *)kind, &PyTuple_Type)) {
        return 1;
    }
    PyErr_SetString(PyExc_TypeError, "messages are tuples");
    return 0;
}

static PyObject *
new_reference(PyObject *object)
{
    Py_XINCREF(object);
    return object;
}

static PyObject *
payload_at(const unsigned char *at, Sizes sizes)
{
    return PyBytes_FromStringAndSize((const char *)at + sizes.overhead, sizes.payload);
}

static PyObject *
runs_decode(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[2]; /* position, max_messages */
    if (expect("decode", count, 8) < 0 || read_sizes(args + 2, sizes, 2) < 0 || !is_kind_of_tuple(args[0])) {
        return NULL;
    }
    Maker maker = {(PyTypeObject *)args[0], args + 4, NULL, NULL};
    Py_ssize_t position = sizes[0], size = 0;
    const unsigned char *data = NULL;
    long long base = 0;
    if (PyBytes_CheckExact(args[1])) { /* slices of anything else would not be bytes */
        int overflow;
        data = (const unsigned char *)PyBytes_AsString(args[1]);
        base = PyLong_AsLongLongAndOverflow(args[7], &overflow);
        if (base == -1 && PyErr_Occurred()) {
            return NULL;
        }
        if (!overflow && base <= LLONG_MAX - PyBytes_Size(args[1])) {
            size = PyBytes_Size(args[1]);
        }
    }
    PyObject *next_offset = NULL, *zero = PyLong_FromLong(0), *messages = zero == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t left = sizes[1] < 0 ? -1 : sizes[1]; messages != NULL && left && position >= 0 && position < size; left--) {
        const unsigned char *at = data + position;
        Sizes found = uncompressed_message(at, size - position);
        if (!found.overhead) {
            break;
        }
        PyObject *offset = next_offset != NULL ? next_offset : PyLong_FromLongLong(base + position);
        position += found.overhead + found.payload;
        next_offset = PyLong_FromLongLong(base + position);
        if (add_message(&maker, messages, offset, new_reference(next_offset), new_reference(zero),
                        payload_at(at, found)) < 0) {
            Py_CLEAR(messages);
        }
    }
    Py_XDECREF(next_offset);
    Py_XDECREF(zero);
    Py_XDECREF(maker.arguments);
    return messages == NULL ? NULL : Py_BuildValue("(Nn)", messages, position);
}

static PyObject *
runs_decode_opened(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t max_messages;
    if (expect("decode_opened", count, 8) < 0 || read_sizes(args + 2, &max_messages, 1) < 0 ||
        !is_kind_of_tuple(args[0])) {
        return NULL;
    }
    if (!PyBytes_CheckExact(args[1])) {
        Py_RETURN_NONE;
    }
    const unsigned char *data = (const unsigned char *)PyBytes_AsString(args[1]);
    Py_ssize_t size = PyBytes_Size(args[1]);
    Run run = find_run(data, size, 0, size, max_messages);
    if (run.end != size) {
        Py_RETURN_NONE;
    }
    Maker maker = {(PyTypeObject *)args[0], args + 3, NULL, NULL};
    PyObject *start = args[6], *end = args[7], *messages = PyList_New(0);
    const unsigned char *at = data;
    for (Py_ssize_t index = 0; messages != NULL && index < run.messages; index++) {
        Sizes found = sizes_of(big_endian(at), at[4]);
        PyObject *next_offset = index == run.messages - 1 ? end : start;
        if (add_message(&maker, messages, new_reference(start), new_reference(next_offset), PyLong_FromSsize_t(index),
                        payload_at(at, found)) < 0) {
            Py_CLEAR(messages);
        }
        at += found.overhead + found.payload;
    }
    Py_XDECREF(maker.arguments);
    return messages;
}

static PyObject *
runs_columns(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[4]; /* position, stop, max_messages, base */
    if (expect("columns", count, 5) < 0 || read_sizes(args + 1, sizes, 4) < 0) {
        return NULL;
    }
    if (!PyBytes_CheckExact(args[0])) { /* it is read twice, and must be the same */
        PyErr_SetString(PyExc_TypeError, "columns() takes bytes only");
        return NULL;
    }
    Py_ssize_t position = sizes[0], base = sizes[3];
    const unsigned char *data = (const unsigned char *)PyBytes_AsString(args[0]);
    Run run = find_run(data, PyBytes_Size(args[0]), position, sizes[1], sizes[2]);
    if (run.end < 0 ? base < PY_SSIZE_T_MIN - run.end : base > PY_SSIZE_T_MAX - run.end) {
        PyErr_SetString(PyExc_OverflowError, "columns() makes offsets of 64 bits");
        return NULL;
    }
    if (run.payload_bytes > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "columns() makes at most 2 GiB of values");
        return NULL;
    }
    Py_ssize_t edge_count = run.messages + 1;
    PyObject *edges = PyBytes_FromStringAndSize(NULL, edge_count * (Py_ssize_t)sizeof(int64_t));
    PyObject *ends = PyBytes_FromStringAndSize(NULL, edge_count * (Py_ssize_t)sizeof(int32_t));
    PyObject *values = PyBytes_FromStringAndSize(NULL, run.payload_bytes);
    if (edges == NULL || ends == NULL || values == NULL) {
        Py_XDECREF(edges);
        Py_XDECREF(ends);
        Py_XDECREF(values);
        return NULL;
    }
    char *edge_at = PyBytes_AsString(edges), *end_at = PyBytes_AsString(ends), *value_at = PyBytes_AsString(values);
    int32_t value_end = 0;
    for (Py_ssize_t i = 0;; i++) {
        int64_t edge = (int64_t)base + position;
        memcpy(edge_at + i * (Py_ssize_t)sizeof edge, &edge, sizeof edge);
        memcpy(end_at + i * (Py_ssize_t)sizeof value_end, &value_end, sizeof value_end);
        if (i == run.messages) {
            break;
        }
        const unsigned char *at = data + position;
        Sizes found = sizes_of(big_endian(at), at[4]);
        memcpy(value_at + value_end, at + found.overhead, (size_t)found.payload);
        value_end += (int32_t)found.payload;
        position += found.overhead + found.payload;
    }
    return Py_BuildValue("(nnNNN)", run.end, run.messages, edges, ends, values);
}

static PyObject *
runs_complete_prefix_bytes(PyObject *Py_UNUSED(module), PyObject *object)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t complete_bytes = complete_prefix_bytes(view.buf, view.len);
    PyBuffer_Release(&view);
    return PyLong_FromSsize_t(complete_bytes);
}

static PyObject *
runs_open_stored(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t most;
    Py_buffer view;
    if (expect("open_stored", count, 2) < 0 || read_sizes(args + 1, &most, 1) < 0 ||
        PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *opened = NULL;
    Py_ssize_t size = open_stored(view.buf, view.len, NULL, most), written = -1;
    if (size >= 0 && (opened = PyBytes_FromStringAndSize(NULL, size)) != NULL) {
        unsigned char *to = (unsigned char *)PyBytes_AsString(opened);
        if (size <= HELD_BYTES) {
            written = open_stored(view.buf, view.len, to, size);
        } else {
            Py_BEGIN_ALLOW_THREADS
            written = open_stored(view.buf, view.len, to, size);
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&view);
    if (size >= 0 && opened == NULL) {
        return NULL;
    }
    if (size < 0 || written != size) {
        Py_XDECREF(opened);
        Py_RETURN_NONE;
    }
    return opened;
}

static PyObject *
runs_crc32(PyObject *Py_UNUSED(module), PyObject *data)
{
    return crc_of_object(data, 0);
}

static PyObject *
runs_portable_crc32(PyObject *Py_UNUSED(module), PyObject *data)
{
    return crc_of_object(data, 1);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"encode", FAST(runs_encode), METH_FASTCALL, "Return the messages for all payloads, and the largest size, or None."},
    {"measure", runs_measure, METH_O, "Return how many bytes payloads have, and the largest one; None unless all are bytes."},
    {"walk", FAST(runs_walk), METH_FASTCALL, "Return where a run ends, its messages, and its largest payload's size."},
    {"decode", FAST(runs_decode), METH_FASTCALL, "Return the messages of a run, and where it ends."},
    {"decode_opened", FAST(runs_decode_opened), METH_FASTCALL, "Return the messages of an opened set, or None."},
    {"columns", FAST(runs_columns), METH_FASTCALL, "Return where a run ends, its messages, and three columns."},
    {"complete_prefix_bytes", runs_complete_prefix_bytes, METH_O, "Return how many bytes whole messages take."},
    {"open_stored", FAST(runs_open_stored), METH_FASTCALL, "Return what a GZIP payload of stored blocks opens to."},
    {"crc32", runs_crc32, METH_O, "Return the CRC-32 by the fastest way that this processor has."},
    {"portable_crc32", runs_portable_crc32, METH_O, "Return the CRC-32, in the way that works on every processor."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    const char *crc = prepare_crc() ? "PCLMULQDQ" : "a table";
    new_tuple = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *description = PyUnicode_FromFormat("messages in C, CRC-32 by %s", crc);
    int added = description == NULL ? -1 : PyModule_AddObjectRef(module, "DESCRIPTION", description);
    Py_XDECREF(description);
    return added;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.message._runs",
    .m_doc = "Runs of uncompressed messages in C; runs_python.py is the same in Python.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__runs(void)
{
    return PyModuleDef_Init(&definition);
}
