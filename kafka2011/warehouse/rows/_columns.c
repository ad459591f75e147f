/* Events as columns: what decoding them one by one and then gathering their values does, in one pass over the bytes.

   `program.py` compiles a schema into numbers: a program, which says how the bytes of an event are read, and slots, into
   which it puts the values. A slot is one column, or what lies within a column, and grows as Arrow's buffers do:
   validity, values (or offsets), text.

   An event that does not fit leaves nothing in the slots, and its row is reported. So may be one that the decoder in
   Python, which is asked then, takes all the same; never does one count as good here that is bad there.

   Programs are trusted and nest at most some hundred levels deep; of the bytes of events nothing is. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As in program.py: an operation, then its operands. A slot of -1 means that the value is only looked at. */
enum {
    ABSENT,          /* slot: takes no bytes, gives a null */
    REFUSE,          /* an event that comes here does not fit */
    BOOLEAN,         /* slot */
    LONG,            /* slot */
    DATE,            /* slot */
    TIME,            /* slot, factor to microseconds */
    LONG_AS_FLOAT,   /* slot */
    LONG_AS_DOUBLE,  /* slot */
    FLOAT,           /* slot */
    DOUBLE,          /* slot */
    FLOAT_AS_DOUBLE, /* slot */
    BYTES,           /* slot */
    TEXT,            /* slot: bytes that are UTF-8 */
    FIXED,           /* slot, size */
    ENUM,            /* slot, count, for each of the writer's symbols its number or -1 */
    ARRAY,           /* slot, size of what follows, operation for an item */
    MAP,             /* slot, size of what follows, operation for a value */
    RECORD,          /* slot, count, an operation for each field */
    UNION,           /* size of what follows, count, where each branch begins (from here), the branches' operations */
    DEFAULT          /* position and size in the literals, operation that reads them */
};

enum { NONE, BITS, FOUR, EIGHT, TEXTS, LIST, STRUCT }; /* kinds of slots, as in program.py */

enum {
    HEADER_BYTES = 10,
    COMPARED_KEYS = 32, /* a map with more of them is left to Python, which sees the same key twice at once */
    LEAST_CAPACITY = 16
};

/* Of the years 1 and 9999. */
static const int64_t FIRST_US = -62135596800000000, LAST_US = 253402300799999999;
static const int64_t FIRST_DAY = -719162, LAST_DAY = 2932896;

/* A double holds each whole number up to this one. */
static const int64_t LARGEST_EXACT = 9007199254740992;

typedef struct {
    int32_t kind;
    int32_t end; /* the number of the first slot behind this one and those within it */
    int32_t nullable;
    int has_nulls;
    int64_t length, capacity;
    int64_t text_bytes, text_capacity;
    unsigned char *valid, *values, *text;
} Slot;

typedef struct {
    const unsigned char *at, *end;
    const unsigned char *literals;
    Slot *slots;
    int no_memory;
} Reader;

/* ---- Slots */

static int
resize(Reader *reader, unsigned char **buffer, int64_t bytes)
{
    unsigned char *found = realloc(*buffer, (size_t)bytes);
    if (found == NULL) {
        reader->no_memory = 1;
        return -1;
    }
    *buffer = found;
    return 0;
}

/* Return the size of the buffer of so many values. */
static int64_t
value_bytes(int32_t kind, int64_t length)
{
    int64_t offsets = 4 * (length + 1);
    int64_t sizes[] = {0, (length + 7) / 8, 4 * length, 8 * length, offsets, offsets, 0};
    return sizes[kind];
}

static int
grow(Reader *reader, Slot *slot)
{
    int64_t capacity = slot->capacity < LEAST_CAPACITY ? LEAST_CAPACITY : 2 * slot->capacity;
    if (capacity >= INT32_MAX) { /* offsets have 32 bits */
        return -1;
    }
    int64_t bytes = value_bytes(slot->kind, capacity);
    if ((slot->nullable && resize(reader, &slot->valid, value_bytes(BITS, capacity)) < 0) ||
        (bytes && resize(reader, &slot->values, bytes) < 0)) {
        return -1;
    }
    if (slot->length == 0 && (slot->kind == TEXTS || slot->kind == LIST)) {
        memset(slot->values, 0, 4);
    }
    slot->capacity = capacity;
    return 0;
}

static inline void
set_bit(unsigned char *bits, int64_t number, int value)
{
    unsigned char mask = (unsigned char)(1 << (number & 7));
    if (value) {
        bits[number >> 3] |= mask;
    } else {
        bits[number >> 3] &= (unsigned char)~mask;
    }
}

static inline int32_t
offset_of(const Slot *slot, int64_t number)
{
    int32_t found;
    memcpy(&found, slot->values + 4 * number, 4);
    return found;
}

/* Make room for one more value; the caller writes it and then counts it. */
static inline int
begin(Reader *reader, Slot *slot, int is_there)
{
    if (slot->length == slot->capacity && grow(reader, slot) < 0) {
        return -1;
    }
    if (slot->nullable) {
        set_bit(slot->valid, slot->length, is_there);
        slot->has_nulls |= !is_there;
    }
    return 0;
}

static inline int
put(Reader *reader, int32_t number, const void *value, size_t bytes)
{
    if (number < 0) {
        return 0;
    }
    Slot *slot = &reader->slots[number];
    if (begin(reader, slot, 1) < 0) {
        return -1;
    }
    memcpy(slot->values + (size_t)slot->length++ * bytes, value, bytes);
    return 0;
}

static int
put_text(Reader *reader, int32_t number, const unsigned char *text, int64_t bytes)
{
    if (number < 0) {
        return 0;
    }
    Slot *slot = &reader->slots[number];
    if (begin(reader, slot, 1) < 0 || bytes > INT32_MAX - slot->text_bytes) {
        return -1;
    }
    int64_t end = slot->text_bytes + bytes;
    if (end > slot->text_capacity) {
        int64_t capacity = 2 * end + 64;
        if (resize(reader, &slot->text, capacity) < 0) {
            return -1;
        }
        slot->text_capacity = capacity;
    }
    if (bytes) {
        memcpy(slot->text + slot->text_bytes, text, (size_t)bytes);
    }
    slot->text_bytes = end;
    int32_t offset = (int32_t)end;
    memcpy(slot->values + 4 * ++slot->length, &offset, 4);
    return 0;
}

static int
put_list(Reader *reader, int32_t number)
{
    Slot *slot = &reader->slots[number];
    if (begin(reader, slot, 1) < 0) {
        return -1;
    }
    int32_t offset = (int32_t)slot[1].length;
    memcpy(slot->values + 4 * ++slot->length, &offset, 4);
    return 0;
}

/* Add a null; what lies within a record is null with it. */
static int
put_null(Reader *reader, int32_t number)
{
    Slot *slot = &reader->slots[number];
    if (begin(reader, slot, 0) < 0) {
        return -1;
    }
    switch (slot->kind) {
    case BITS:
        set_bit(slot->values, slot->length, 0);
        break;
    case FOUR:
    case EIGHT:
        memset(slot->values + value_bytes(slot->kind, slot->length), 0, slot->kind == FOUR ? 4 : 8);
        break;
    case TEXTS:
    case LIST:
        memcpy(slot->values + 4 * slot->length + 4, slot->values + 4 * slot->length, 4);
        break;
    case STRUCT:
        for (int32_t inner = number + 1; inner < slot->end; inner = reader->slots[inner].end) {
            if (put_null(reader, inner) < 0) {
                return -1;
            }
        }
    }
    slot->length++;
    return 0;
}

/* Forget all values of a slot but the first ones, and those within. */
static void
cut(Slot *slots, int32_t number, int64_t length)
{
    Slot *slot = &slots[number];
    int64_t inner_length = length;
    if (slot->kind == LIST) {
        inner_length = slot->capacity ? offset_of(slot, length) : 0;
    } else if (slot->kind == TEXTS) {
        slot->text_bytes = slot->capacity ? offset_of(slot, length) : 0;
    }
    for (int32_t inner = number + 1; inner < slot->end; inner = slots[inner].end) {
        cut(slots, inner, inner_length);
    }
    slot->length = length;
}

/* ---- Values */

static inline int
read_long(Reader *reader, int64_t *found)
{
    uint64_t folded = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (reader->at == reader->end) {
            return -1;
        }
        uint64_t byte = *reader->at++;
        if (shift == 63 && byte > 1) {
            return -1;
        }
        folded |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *found = (int64_t)(folded >> 1 ^ (~(folded & 1) + 1));
            return 0;
        }
    }
    return -1;
}

/* Return where so many bytes begin, which are then read; NULL where there are fewer. */
static inline const unsigned char *
take(Reader *reader, int64_t bytes)
{
    if (bytes < 0 || bytes > reader->end - reader->at) {
        return NULL;
    }
    const unsigned char *found = reader->at;
    reader->at += bytes;
    return found;
}

/* As Python has it: no surrogates, nothing longer than need be, nothing beyond U+10FFFF. */
static int
is_utf8(const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        if (end - at >= 8) {
            uint64_t eight;
            memcpy(&eight, at, 8);
            if (!(eight & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        unsigned char first = *at;
        if (first < 0x80) {
            at++;
            continue;
        }
        int more = first < 0xC2 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 0;
        if (!more || end - at <= more) {
            return 0;
        }
        unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        unsigned char largest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (at[1] < least || at[1] > largest) {
            return 0;
        }
        for (int i = 2; i <= more; i++) {
            if ((at[i] & 0xC0) != 0x80) {
                return 0;
            }
        }
        at += more + 1;
    }
    return 1;
}

static int
read_text(Reader *reader, int32_t slot, int is_text)
{
    int64_t bytes;
    const unsigned char *text;
    if (read_long(reader, &bytes) < 0 || (text = take(reader, bytes)) == NULL ||
        (is_text && !is_utf8(text, text + bytes))) {
        return -1;
    }
    return put_text(reader, slot, text, bytes);
}

static int
read_boolean(Reader *reader, int32_t number)
{
    const unsigned char *found = take(reader, 1);
    if (found == NULL || *found > 1) {
        return -1;
    }
    if (number >= 0) {
        Slot *slot = &reader->slots[number];
        if (begin(reader, slot, 1) < 0) {
            return -1;
        }
        set_bit(slot->values, slot->length++, *found);
    }
    return 0;
}

/* All whole numbers of Avro's. */
static int
read_number(Reader *reader, int32_t kind, int32_t slot, int32_t factor)
{
    int64_t number;
    if (read_long(reader, &number) < 0) {
        return -1;
    }
    if (kind == DATE) {
        int32_t days = (int32_t)number;
        return number < FIRST_DAY || number > LAST_DAY ? -1 : put(reader, slot, &days, 4);
    }
    if (kind == TIME) {
        if (number < FIRST_US / factor - 1 || number > LAST_US / factor) {
            return -1;
        }
        number *= factor;
        return number >= FIRST_US ? put(reader, slot, &number, 8) : -1;
    }
    if (kind == LONG) {
        return put(reader, slot, &number, 8);
    }
    if (kind == LONG_AS_DOUBLE && (number > LARGEST_EXACT || number < -LARGEST_EXACT)) {
        return -1; /* whether it may be rounded, Python knows */
    }
    double real = (double)number;
    float single = (float)real;
    return kind == LONG_AS_DOUBLE ? put(reader, slot, &real, 8) : put(reader, slot, &single, 4);
}

static int
read_real(Reader *reader, int32_t kind, int32_t slot)
{
    size_t bytes = kind == DOUBLE ? 8 : 4;
    const unsigned char *found = take(reader, (int64_t)bytes);
    if (found == NULL) {
        return -1;
    }
    if (kind != FLOAT_AS_DOUBLE) {
        return put(reader, slot, found, bytes);
    }
    float single;
    memcpy(&single, found, 4);
    double real = (double)single;
    return put(reader, slot, &real, 8);
}

/* ---- Programs */

static const int32_t *run(Reader *reader, const int32_t *op);

/* Begin the next block of an array or a map. Each item takes a byte or more, so no count is believed that exceeds them.
   Where nobody wants them, fastavro understands no block that says its size. */
static int
read_count(Reader *reader, int32_t slot, int64_t *count)
{
    int64_t bytes;
    if (read_long(reader, count) < 0) {
        return -1;
    }
    if (*count < 0) {
        if (slot < 0 || *count == INT64_MIN || read_long(reader, &bytes) < 0) {
            return -1;
        }
        *count = -*count;
    }
    return *count <= reader->end - reader->at ? 0 : -1;
}

static int
read_array(Reader *reader, int32_t slot, const int32_t *item)
{
    for (;;) {
        int64_t count;
        if (read_count(reader, slot, &count) < 0) {
            return -1;
        }
        if (count == 0) {
            return slot < 0 ? 0 : put_list(reader, slot);
        }
        while (count--) {
            if (run(reader, item) == NULL) {
                return -1;
            }
        }
    }
}

static int
read_map(Reader *reader, int32_t slot, const int32_t *value)
{
    struct {
        const unsigned char *at;
        int64_t bytes;
    } keys[COMPARED_KEYS];
    int known = 0;
    for (;;) {
        int64_t count;
        if (read_count(reader, slot, &count) < 0) {
            return -1;
        }
        if (count == 0) {
            return slot < 0 ? 0 : put_list(reader, slot);
        }
        while (count--) {
            int64_t bytes;
            const unsigned char *key;
            if (read_long(reader, &bytes) < 0 || (key = take(reader, bytes)) == NULL || !is_utf8(key, key + bytes)) {
                return -1;
            }
            if (slot >= 0) { /* of one key that comes twice Python keeps the last value, in the first one's place */
                if (known == COMPARED_KEYS) {
                    return -1;
                }
                for (int i = 0; i < known; i++) {
                    if (keys[i].bytes == bytes && memcmp(keys[i].at, key, (size_t)bytes) == 0) {
                        return -1;
                    }
                }
                keys[known].at = key;
                keys[known++].bytes = bytes;
                Slot *entry = &reader->slots[slot + 1];
                if (begin(reader, entry, 1) < 0 || put_text(reader, slot + 2, key, bytes) < 0) {
                    return -1;
                }
                entry->length++;
            }
            if (run(reader, value) == NULL) {
                return -1;
            }
        }
    }
}

static int
read_enum(Reader *reader, int32_t slot, int32_t count, const int32_t *symbols)
{
    int64_t symbol;
    if (read_long(reader, &symbol) < 0 || symbol < 0 || symbol >= count || symbols[symbol] < 0) {
        return -1;
    }
    return put(reader, slot, &symbols[symbol], 4);
}

/* Read one value as an operation says. Returns the operation behind it, NULL when it does not fit. */
static const int32_t *
run(Reader *reader, const int32_t *op)
{
    int found = 0;
    int64_t branch;
    const unsigned char *bytes;
    switch (op[0]) {
    case ABSENT:
        found = op[1] < 0 ? 0 : put_null(reader, op[1]);
        op += 2;
        break;
    case BOOLEAN:
        found = read_boolean(reader, op[1]);
        op += 2;
        break;
    case LONG:
    case DATE:
    case LONG_AS_FLOAT:
    case LONG_AS_DOUBLE:
        found = read_number(reader, op[0], op[1], 1);
        op += 2;
        break;
    case TIME:
        found = read_number(reader, TIME, op[1], op[2]);
        op += 3;
        break;
    case FLOAT:
    case DOUBLE:
    case FLOAT_AS_DOUBLE:
        found = read_real(reader, op[0], op[1]);
        op += 2;
        break;
    case BYTES:
    case TEXT:
        found = read_text(reader, op[1], op[0] == TEXT);
        op += 2;
        break;
    case FIXED:
        bytes = take(reader, op[2]);
        found = bytes == NULL ? -1 : put_text(reader, op[1], bytes, op[2]);
        op += 3;
        break;
    case ENUM:
        found = read_enum(reader, op[1], op[2], op + 3);
        op += 3 + op[2];
        break;
    case ARRAY:
        found = read_array(reader, op[1], op + 3);
        op += 3 + op[2];
        break;
    case MAP:
        found = read_map(reader, op[1], op + 3);
        op += 3 + op[2];
        break;
    case RECORD: {
        Slot *slot = op[1] < 0 ? NULL : &reader->slots[op[1]];
        if (slot != NULL) {
            if (begin(reader, slot, 1) < 0) {
                return NULL;
            }
            slot->length++;
        }
        int32_t fields = op[2];
        for (op += 3; fields-- && op != NULL;) {
            op = run(reader, op);
        }
        return op;
    }
    case UNION: {
        const int32_t *behind = op + 2 + op[1];
        if (read_long(reader, &branch) < 0 || branch < 0 || branch >= op[2]) {
            return NULL;
        }
        return run(reader, op + op[3 + branch]) == NULL ? NULL : behind;
    }
    case DEFAULT: {
        Reader literal = *reader;
        literal.at = reader->literals + op[1];
        literal.end = literal.at + op[2];
        op = run(&literal, op + 3);
        reader->no_memory = literal.no_memory;
        return op;
    }
    default: /* REFUSE */
        return NULL;
    }
    return found < 0 ? NULL : op;
}

/* ---- What Python calls */

static void
release_slots(Slot *slots, int32_t count)
{
    for (int32_t i = 0; slots != NULL && i < count; i++) {
        free(slots[i].valid);
        free(slots[i].values);
        free(slots[i].text);
    }
    free(slots);
}

/* Return how many rows were refused, whose numbers are written; -1 for want of memory. */
static Py_ssize_t
read_rows(Reader *reader, int32_t slots, const int32_t *program, const unsigned char *head, const unsigned char *data,
          const unsigned char *offsets, Py_ssize_t rows, int32_t *refused)
{
    Py_ssize_t count = 0, good = 0;
    for (Py_ssize_t row = 0; row < rows; row++) {
        int32_t edges[2];
        memcpy(edges, offsets + 4 * row, 8);
        reader->at = data + edges[0];
        reader->end = data + edges[1];
        const unsigned char *found = take(reader, HEADER_BYTES);
        if (found != NULL && memcmp(found, head, HEADER_BYTES) == 0 && run(reader, program) != NULL &&
            reader->at == reader->end) {
            good++;
            continue;
        }
        if (reader->no_memory) {
            return -1;
        }
        for (int32_t i = 0; i < slots; i = reader->slots[i].end) {
            cut(reader->slots, i, good);
        }
        refused[count++] = (int32_t)row;
    }
    return count;
}

/* Return a buffer as bytes, None where Arrow has none; takes no object over. */
static PyObject *
as_bytes(const unsigned char *buffer, int64_t bytes, int is_wanted)
{
    return is_wanted ? PyBytes_FromStringAndSize(buffer ? (const char *)buffer : "\0\0\0", (Py_ssize_t)bytes)
                     : Py_NewRef(Py_None);
}

static PyObject *
slot_as_buffers(const Slot *slot)
{
    int64_t bytes = value_bytes(slot->kind, slot->length);
    return Py_BuildValue("(LNNN)", (long long)slot->length,
                         as_bytes(slot->valid, value_bytes(BITS, slot->length), slot->has_nulls),
                         as_bytes(slot->values, bytes, slot->kind != NONE && slot->kind != STRUCT),
                         as_bytes(slot->text, slot->text_bytes, slot->kind == TEXTS));
}

static PyObject *
columns_of(const Slot *slots, int32_t count)
{
    PyObject *found = PyList_New(count);
    for (int32_t i = 0; found != NULL && i < count; i++) {
        PyObject *buffers = slot_as_buffers(&slots[i]);
        if (buffers == NULL) {
            Py_CLEAR(found);
        } else {
            PyList_SetItem(found, i, buffers);
        }
    }
    return found;
}

static PyObject *
columns_decode(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer program, kinds, literals, head, offsets, data;
    Py_ssize_t first, rows;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*nn:decode", &program, &kinds, &literals, &head, &offsets, &data, &first,
                          &rows)) {
        return NULL;
    }
    PyObject *result = NULL;
    int32_t count = (int32_t)(kinds.len / 12), refused_rows = 0;
    Slot *slots = calloc((size_t)count + 1, sizeof *slots);
    int32_t *refused = NULL;
    if (head.len != HEADER_BYTES || first < 0 || rows < 0 || rows > INT32_MAX || offsets.len / 4 - 1 - first < rows) {
        PyErr_SetString(PyExc_ValueError, "decode() wants a head, and the offsets of all rows");
        goto done;
    }
    const unsigned char *edges = (const unsigned char *)offsets.buf + 4 * first;
    for (Py_ssize_t row = 0; row < rows; row++) {
        int32_t edge[2];
        memcpy(edge, edges + 4 * row, 8);
        if (edge[0] < 0 || edge[1] < edge[0] || edge[1] > data.len) {
            PyErr_SetString(PyExc_ValueError, "decode() wants offsets of the data");
            goto done;
        }
    }
    refused = malloc(4 * (size_t)rows + 4);
    if (slots == NULL || refused == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (int32_t i = 0; i < count; i++) {
        memcpy(&slots[i], (const unsigned char *)kinds.buf + 12 * i, 12);
    }
    Reader reader = {.slots = slots, .literals = literals.buf};
    Py_BEGIN_ALLOW_THREADS;
    refused_rows = (int32_t)read_rows(&reader, count, program.buf, head.buf, data.buf, edges, rows, refused);
    Py_END_ALLOW_THREADS;
    if (refused_rows < 0) {
        PyErr_NoMemory();
        goto done;
    }
    PyObject *columns = columns_of(slots, count);
    if (columns != NULL) {
        result = Py_BuildValue("(Ny#)", columns, (const char *)refused, (Py_ssize_t)4 * refused_rows);
    }
done:
    release_slots(slots, count);
    free(refused);
    PyBuffer_Release(&program);
    PyBuffer_Release(&kinds);
    PyBuffer_Release(&literals);
    PyBuffer_Release(&head);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"decode", columns_decode, METH_VARARGS, "Return the buffers of each slot, and the numbers of refused rows."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.warehouse.rows._columns",
    .m_doc = "Events as columns, in C; program.py compiles the schemas.",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
