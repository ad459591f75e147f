/* Runs of uncompressed messages: what runs_python.py does, in C.

   A run is good messages of these forms, back to back:

       length int32 | magic int8 = 1 | attributes int8, bits 0-1 clear | crc uint32 | payload        (big-endian)
       length int32 | magic int8 = 0 | crc uint32 | payload

   A run ends before whatever else there is: compressed messages, faults, an end within a message. Python looks at those,
   so that every rule about them stands in one place. Of bytes that are no `bytes` it takes as much as it can treat like
   Python does, and else nothing.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_lengths.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_CLMUL 1
#include <immintrin.h>
#endif

enum {
    CRC_BYTES = 4,         /* the last ones before the payload */
    OVERHEAD_BYTES = 9,    /* before the payload, with magic 0; magic 1 has one more, the attributes */
    CODEC_MASK = 0x03,
    HELD_BYTES = 64 * 1024 /* a run longer than that lets other threads run */
};

/* ---- CRC-32 (IEEE 802.3, reflected), as zlib computes it; states are inverted sums */

static uint32_t crc_table[8][256];

static void
fill_crc_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
        }
        crc_table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int row = 1; row < 8; row++) {
            uint32_t before = crc_table[row - 1][byte];
            crc_table[row][byte] = (before >> 8) ^ crc_table[0][before & 0xFF];
        }
    }
}

static inline uint32_t
little_endian(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Eight bytes a step, by a table for each of them ("slicing by 8"). */
static uint32_t
crc_by_table(uint32_t state, const unsigned char *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = state ^ little_endian(at), high = little_endian(at + 4);
        state = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^ crc_table[5][low >> 16 & 0xFF] ^
                crc_table[4][low >> 24] ^ crc_table[3][high & 0xFF] ^ crc_table[2][high >> 8 & 0xFF] ^
                crc_table[1][high >> 16 & 0xFF] ^ crc_table[0][high >> 24];
    }
    for (; size; at++, size--) {
        state = (state >> 8) ^ crc_table[0][(state ^ *at) & 0xFF];
    }
    return state;
}

#ifdef HAVE_CLMUL

/* By carry-less multiplication: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
   Instruction" (Intel, 2009). 128 bits of state are moved past the next 16 (or 64) bytes by multiplying each half
   with x^n mod P. The factors are those powers, bit-reflected and shifted left by one. */

#define CLMUL __attribute__((target("pclmul,sse4.1,ssse3")))

/* For pshufb: a load from `16 - n` on shifts by n bytes towards the end, one from `16 + n` on towards the start. */
static const unsigned char shuffle[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

CLMUL static inline __m128i
load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

CLMUL static inline __m128i
fold(__m128i state, __m128i factors, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(state, factors, 0x00);
    __m128i high = _mm_clmulepi64_si128(state, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* For 16 bytes and more. */
CLMUL static uint32_t
crc_by_clmul(uint32_t state, const unsigned char *at, size_t size)
{
    const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4); /* x^(512-32), x^(512+32) */
    const __m128i by_16 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0); /* x^(128-32), x^(128+32) */
    const __m128i by_8 = _mm_set_epi64x(0, 0x163CD6124);            /* x^64 */
    const __m128i barrett = _mm_set_epi64x(0x1F7011641, 0x1DB710641); /* x^64 / P, P */
    const __m128i low_halves = _mm_set_epi32(0, -1, 0, -1);
    __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128((int)state));

    if (size >= 64) {
        __m128i b = load(at + 16), c = load(at + 32), d = load(at + 48);
        for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
            a = fold(a, by_64, load(at));
            b = fold(b, by_64, load(at + 16));
            c = fold(c, by_64, load(at + 32));
            d = fold(d, by_64, load(at + 48));
        }
        a = fold(fold(fold(a, by_16, b), by_16, c), by_16, d);
    } else {
        at += 16, size -= 16;
    }
    for (; size >= 16; at += 16, size -= 16) {
        a = fold(a, by_16, load(at));
    }
    if (size) { /* The state and what is left are 32 bytes, with zeros before them, which change nothing. */
        __m128i towards_start = load(shuffle + 16 + size);
        __m128i first = _mm_shuffle_epi8(a, load(shuffle + size));
        __m128i rest = _mm_shuffle_epi8(a, towards_start);
        __m128i last = _mm_blendv_epi8(rest, load(at + size - 16), towards_start);
        a = fold(first, by_16, last);
    }
    /* From 128 bits to 64, and by Barrett's reduction to 32. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low_halves), by_8, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(a, low_halves), barrett, 0x10);
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, product), 1);
}

static int has_clmul;

#endif

static inline uint32_t
crc32_of(const unsigned char *at, size_t size)
{
#ifdef HAVE_CLMUL
    if (has_clmul && size >= 16) {
        return ~crc_by_clmul(~0u, at, size);
    }
#endif
    return ~crc_by_table(~0u, at, size);
}

/* ---- messages */

static inline void
put_big_endian(unsigned char *at, uint32_t value)
{
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

typedef struct {
    Py_ssize_t overhead, payload; /* bytes */
} Sizes;

/* Return the sizes of a message whose header says so. */
static inline Sizes
sizes_of(uint32_t length, unsigned char magic)
{
    Py_ssize_t overhead = OVERHEAD_BYTES + magic;
    return (Sizes){overhead, LENGTH_BYTES + (Py_ssize_t)length - overhead};
}

/* Return the sizes of the uncompressed message that stands there; an overhead of 0 if none does. */
static inline Sizes
uncompressed_message(const unsigned char *at, Py_ssize_t left)
{
    const Sizes none = {0, 0};
    if (left < OVERHEAD_BYTES) {
        return none;
    }
    uint32_t length = big_endian(at); /* read once, as the next one: another thread may write to a bytearray */
    unsigned char magic = at[4];
    if (magic > 1 || (magic == 1 && at[5] & CODEC_MASK)) {
        return none;
    }
    if (length > INT32_MAX || (Py_ssize_t)length > left - LENGTH_BYTES) {
        return none;
    }
    Sizes found = sizes_of(length, magic);
    if (found.payload < 0) {
        return none;
    }
    const unsigned char *payload = at + found.overhead;
    return crc32_of(payload, (size_t)found.payload) == big_endian(payload - CRC_BYTES) ? found : none;
}

typedef struct {
    Py_ssize_t end, messages, largest, payload_bytes;
} Run;

/* Extend a run until `max_messages` (below 0: no limit), or until a message would not start before `stop`. */
static void
extend(Run *run, const unsigned char *data, Py_ssize_t size, Py_ssize_t stop, Py_ssize_t max_messages)
{
    while (run->end < stop && run->messages != max_messages) {
        Sizes found = uncompressed_message(data + run->end, size - run->end);
        if (!found.overhead) {
            break;
        }
        run->end += found.overhead + found.payload;
        run->messages++;
        run->payload_bytes += found.payload;
        if (found.payload > run->largest) {
            run->largest = found.payload;
        }
    }
}

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

static int
read_sizes(PyObject *const *args, Py_ssize_t *sizes, int count)
{
    for (int i = 0; i < count; i++) {
        sizes[i] = PyLong_AsSsize_t(args[i]);
        if (sizes[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static int
expect(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, wanted, given);
    return -1;
}

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
crc_of_object(PyObject *object, int by_table)
{
    Py_buffer data;
    if (PyObject_GetBuffer(object, &data, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t crc = by_table ? ~crc_by_table(~0u, data.buf, (size_t)data.len) : crc32_of(data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
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
    {"walk", FAST(runs_walk), METH_FASTCALL, "Return where a run ends, its messages, and its largest payload's size."},
    {"decode", FAST(runs_decode), METH_FASTCALL, "Return the messages of a run, and where it ends."},
    {"decode_opened", FAST(runs_decode_opened), METH_FASTCALL, "Return the messages of an opened set, or None."},
    {"columns", FAST(runs_columns), METH_FASTCALL, "Return where a run ends, its messages, and three columns."},
    {"complete_prefix_bytes", runs_complete_prefix_bytes, METH_O, "Return how many bytes whole messages take."},
    {"crc32", runs_crc32, METH_O, "Return the CRC-32 by the fastest way that this processor has."},
    {"portable_crc32", runs_portable_crc32, METH_O, "Return the CRC-32, in the way that works on every processor."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    const char *crc = "a table";
    fill_crc_table();
#ifdef HAVE_CLMUL
    __builtin_cpu_init();
    has_clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (has_clmul) {
        crc = "PCLMULQDQ";
    }
#endif
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
