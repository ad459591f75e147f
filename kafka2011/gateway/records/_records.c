/* Records: what records_python.py does, in C, for the usual case. It answers None or False for any other, and Python
   then says what is wrong. The forms of records are described there and in batch_format.py.

   Each function reads what it is given twice: it measures first, and then writes. The interpreter's lock is held all
   the time, so nobody changes a bytearray in between.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "../../message/_arguments.h"
#include "../../message/_messages.h"

enum {
    LENGTH_AT = 8, /* in a batch */
    LENGTH_END = 12,
    CRC_AT = 17,
    CHECKED_FROM = 21,
    LAST_DELTA_AT = 23,
    BASE_TIMESTAMP_AT = 27,
    MAX_TIMESTAMP_AT = 35,
    COUNT_AT = 57,
    HEADER_BYTES = 61,
    MOST_VARINT_BYTES = 10,
    MESSAGE_OVERHEAD = OVERHEAD_BYTES + 1 /* of magic 1 */
};

/* ---- numbers in zigzag form */

typedef struct {
    const unsigned char *at, *end; /* `at` is NULL once something did not add up */
} Reader;

static inline int64_t
read_number(Reader *reader)
{
    uint64_t value = 0;
    const unsigned char *at = reader->at;
    for (int shift = 0; at != NULL && at < reader->end && shift < 7 * MOST_VARINT_BYTES; shift += 7) {
        unsigned char byte = *at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            reader->at = at;
            return (int64_t)(value >> 1 ^ (0 - (value & 1)));
        }
    }
    reader->at = NULL;
    return 0;
}

static inline int64_t
read_number_of_32_bits(Reader *reader)
{
    int64_t value = read_number(reader);
    if (value < INT32_MIN || value > INT32_MAX) {
        reader->at = NULL;
    }
    return value;
}

/* Skip a key, a value or a header's name, with its size, and return the size; -1 for null, if `least` allows it. */
static inline int64_t
skip_sized(Reader *reader, int64_t least)
{
    int64_t size = read_number_of_32_bits(reader);
    if (reader->at == NULL || size < least || size > reader->end - reader->at) {
        reader->at = NULL;
        return 0;
    }
    reader->at += size > 0 ? size : 0;
    return size;
}

static inline void
skip_headers(Reader *reader)
{
    int64_t headers = read_number_of_32_bits(reader);
    if (reader->at == NULL || headers < 0 || headers > reader->end - reader->at) {
        reader->at = NULL;
        return;
    }
    while (headers-- > 0 && reader->at != NULL) {
        skip_sized(reader, 0);
        skip_sized(reader, -1);
    }
}

static inline Py_ssize_t
number_bytes(uint64_t value)
{
    Py_ssize_t bytes = 1;
    for (value <<= 1; value > 0x7F; value >>= 7) {
        bytes++;
    }
    return bytes;
}

static inline unsigned char *
put_number(unsigned char *at, uint64_t value)
{
    for (value <<= 1; value > 0x7F; value >>= 7) {
        *at++ = (unsigned char)(value | 0x80);
    }
    *at++ = (unsigned char)value;
    return at;
}

static inline unsigned char *
put_bytes(unsigned char *at, const unsigned char *from, Py_ssize_t size)
{
    memcpy(at, from, (size_t)size);
    return at + size;
}

/* ---- records of a batch, and notes of a wrapper */

typedef struct {
    const unsigned char *delta, *key, *headers; /* each with its sizes, as it stands there */
    Py_ssize_t delta_bytes, key_bytes, header_bytes;
    const unsigned char *value;
    Py_ssize_t value_bytes;
    int64_t offset_delta;
    int is_null;
    const unsigned char *end; /* NULL if it is no good record */
} Record;

static inline Record
record_at(const unsigned char *at, const unsigned char *body_end)
{
    Record record = {.end = NULL};
    Reader reader = {at, body_end};
    int64_t length = read_number_of_32_bits(&reader);
    if (reader.at == NULL || length < 1 || length > body_end - reader.at) {
        return record;
    }
    reader.end = reader.at + length;
    record.delta = ++reader.at; /* behind the attributes */
    read_number(&reader);
    const unsigned char *delta_end = reader.at;
    record.offset_delta = read_number_of_32_bits(&reader);
    record.key = reader.at;
    skip_sized(&reader, -1);
    const unsigned char *key_end = reader.at;
    int64_t value_bytes = skip_sized(&reader, -1);
    record.headers = reader.at;
    skip_headers(&reader);
    if (reader.at != reader.end) {
        return record;
    }
    record.is_null = value_bytes < 0;
    record.value_bytes = record.is_null ? 0 : (Py_ssize_t)value_bytes;
    record.value = record.headers - record.value_bytes;
    record.delta_bytes = delta_end - record.delta;
    record.key_bytes = key_end - record.key;
    record.header_bytes = reader.end - record.headers;
    record.end = reader.end;
    return record;
}

/* Read the note that stands there; what it does not say, its value and offset, is left out. */
static inline Record
note_at(const unsigned char *at, const unsigned char *notes_end, int64_t *timestamp_delta)
{
    Record record = {.delta = at, .end = NULL};
    Reader reader = {at, notes_end};
    *timestamp_delta = read_number(&reader);
    if (reader.at == NULL || reader.at == notes_end) {
        return record;
    }
    record.delta_bytes = reader.at - at;
    record.is_null = *reader.at == 1;
    record.key = ++reader.at;
    skip_sized(&reader, -1);
    record.headers = reader.at;
    skip_headers(&reader);
    if (reader.at == NULL) {
        return record;
    }
    record.key_bytes = record.headers - record.key;
    record.header_bytes = reader.at - record.headers;
    record.end = reader.at;
    return record;
}

static inline Py_ssize_t
record_bytes(const Record *record, Py_ssize_t index)
{
    Py_ssize_t size_bytes = record->is_null ? 1 : number_bytes((uint64_t)record->value_bytes);
    return 1 + record->delta_bytes + number_bytes((uint64_t)index) + record->key_bytes + size_bytes +
           record->value_bytes + record->header_bytes;
}

static inline unsigned char *
put_record(unsigned char *at, const Record *record, Py_ssize_t index)
{
    at = put_number(at, (uint64_t)record_bytes(record, index));
    *at++ = 0;
    at = put_bytes(at, record->delta, record->delta_bytes);
    at = put_number(at, (uint64_t)index);
    at = put_bytes(at, record->key, record->key_bytes);
    if (record->is_null) {
        *at++ = 1; /* -1 */
    } else {
        at = put_number(at, (uint64_t)record->value_bytes);
        at = put_bytes(at, record->value, record->value_bytes);
    }
    return put_bytes(at, record->headers, record->header_bytes);
}

/* ---- batches */

static void
put_int64(unsigned char *at, int64_t value)
{
    put_big_endian(at, (uint32_t)((uint64_t)value >> 32));
    put_big_endian(at + 4, (uint32_t)value);
}

/* Return a new batch of a size with its header; NULL with an error, or without one where Python has to do it. */
static PyObject *
new_batch(PyObject *header, Py_ssize_t size)
{
    if (!PyBytes_CheckExact(header) || PyBytes_Size(header) != HEADER_BYTES || size > INT32_MAX) {
        return NULL;
    }
    PyObject *batch = PyBytes_FromStringAndSize(NULL, size);
    if (batch != NULL) {
        memcpy(PyBytes_AsString(batch), PyBytes_AsString(header), HEADER_BYTES);
    }
    return batch;
}

/* Fill in what depends on the records, all of which are there. Takes over the batch. */
static PyObject *
sealed(PyObject *batch, PyObject *checksum, Py_ssize_t records)
{
    unsigned char *data = (unsigned char *)PyBytes_AsString(batch);
    Py_ssize_t size = PyBytes_Size(batch);
    put_big_endian(data + LENGTH_AT, (uint32_t)(size - LENGTH_END));
    if (records) {
        put_big_endian(data + LAST_DELTA_AT, (uint32_t)(records - 1));
    }
    put_big_endian(data + COUNT_AT, (uint32_t)records);
    PyObject *view = PyMemoryView_FromMemory((char *)data + CHECKED_FROM, size - CHECKED_FROM, PyBUF_READ);
    PyObject *sum = view == NULL ? NULL : PyObject_CallFunctionObjArgs(checksum, view, NULL);
    unsigned long crc = sum == NULL ? 0 : PyLong_AsUnsignedLong(sum);
    Py_XDECREF(view);
    Py_XDECREF(sum);
    if (PyErr_Occurred()) {
        Py_DECREF(batch);
        return NULL;
    }
    put_big_endian(data + CRC_AT, (uint32_t)crc);
    return batch;
}

/* ---- functions */

static PyObject *
none_unless_error(void)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
records_check(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t records;
    Py_buffer body;
    if (expect("check", count, 2) < 0 || read_sizes(args + 1, &records, 1) < 0 ||
        PyObject_GetBuffer(args[0], &body, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *at = body.buf, *end = at + body.len;
    for (Py_ssize_t index = 0; index < records && at != NULL; index++) {
        Record record = record_at(at, end);
        at = record.offset_delta == index ? record.end : NULL;
    }
    PyBuffer_Release(&body);
    return PyBool_FromLong(at == end);
}

/* Some records of a batch, from one on, and what they take in a wrapper. `end` is NULL where one is no good record. */
typedef struct {
    const unsigned char *start, *end;
    Py_ssize_t records, inner_bytes, note_bytes;
} Some;

/* Return the records from a position on: as many as fit `most_bytes`, at least one. */
static Some
some_records(const Py_buffer *body, Py_ssize_t position, Py_ssize_t most_records, Py_ssize_t most_bytes)
{
    Some some = {.end = NULL};
    if (position < 0 || position > body->len) {
        return some;
    }
    const unsigned char *at = (const unsigned char *)body->buf + position, *body_end = at + body->len - position;
    some.start = at;
    while (some.records < most_records) {
        Record record = record_at(at, body_end);
        if (record.end == NULL) {
            return some;
        }
        Py_ssize_t inner = MESSAGE_OVERHEAD + record.value_bytes;
        Py_ssize_t notes = record.delta_bytes + 1 + record.key_bytes + record.header_bytes;
        if (some.records && some.inner_bytes + some.note_bytes + inner + notes > most_bytes) {
            break;
        }
        some.inner_bytes += inner;
        some.note_bytes += notes;
        some.records++;
        at = record.end;
    }
    some.end = at;
    return some;
}

static inline unsigned char *
put_message_head(unsigned char *at, const unsigned char *value, Py_ssize_t value_bytes)
{
    put_big_endian(at, (uint32_t)(value_bytes + MESSAGE_OVERHEAD - LENGTH_BYTES));
    at[4] = 1;
    at[5] = 0;
    put_big_endian(at + 6, crc32_of(value, (size_t)value_bytes));
    return at + MESSAGE_OVERHEAD;
}

static inline unsigned char *
put_note(unsigned char *at, const Record *record)
{
    at = put_bytes(at, record->delta, record->delta_bytes);
    *at++ = (unsigned char)record->is_null;
    at = put_bytes(at, record->key, record->key_bytes);
    return put_bytes(at, record->headers, record->header_bytes);
}

static PyObject *
records_take(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[3]; /* position, most_records, most_bytes */
    Py_buffer body;
    if (expect("take", count, 4) < 0 || read_sizes(args + 1, sizes, 3) < 0 ||
        PyObject_GetBuffer(args[0], &body, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Some some = some_records(&body, sizes[0], sizes[1], sizes[2]);
    PyObject *inner = some.end == NULL ? NULL : PyBytes_FromStringAndSize(NULL, some.inner_bytes);
    PyObject *notes = inner == NULL ? NULL : PyBytes_FromStringAndSize(NULL, some.note_bytes);
    if (notes == NULL) {
        Py_XDECREF(inner);
        PyBuffer_Release(&body);
        return none_unless_error();
    }
    unsigned char *message = (unsigned char *)PyBytes_AsString(inner);
    unsigned char *note = (unsigned char *)PyBytes_AsString(notes);
    for (const unsigned char *at = some.start; at < some.end;) {
        Record record = record_at(at, some.end);
        message = put_message_head(message, record.value, record.value_bytes);
        message = put_bytes(message, record.value, record.value_bytes);
        note = put_note(note, &record);
        at = record.end;
    }
    Py_ssize_t end = some.end - (const unsigned char *)body.buf;
    PyBuffer_Release(&body);
    return Py_BuildValue("(NNnn)", inner, notes, end, some.records);
}

/* ---- wrappers: the forms are described in layout.py */

static const unsigned char gzip_header[] = {0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 0xFF};

enum {
    GZIP_CODEC = 1,
    FIELD_BYTES = 6, /* before the notes, behind the gzip header */
    NOTES_HEAD_BYTES = 60,
    NOTES_COUNT_AT = 35,
    NOTES_SIZE_AT = 56,
    MOST_NOTES = 0xFFFF - 4, /* of one member */
    STORED_HEAD_BYTES = 5,
    STORED_BYTES = 0xFFFF,
    TRAILER_BYTES = 8
};

static inline unsigned char *
put_little_endian(unsigned char *at, uint32_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8) {
        *at++ = (unsigned char)value;
    }
    return at;
}

/* A deflate stream that stores what it is given, and that is known by its size. */
typedef struct {
    unsigned char *at, *block; /* `block` is where the last one begins */
    Py_ssize_t block_left, left; /* bytes of the block that was begun, and of all that is still to come */
    uint32_t crc;                /* of the blocks that are whole */
} Stored;

static inline void
put_stored(Stored *stream, const unsigned char *from, Py_ssize_t size)
{
    while (size > 0) {
        if (stream->block_left == 0) {
            stream->block_left = stream->left < STORED_BYTES ? stream->left : STORED_BYTES;
            *stream->at++ = stream->left == stream->block_left; /* whether it is the last one */
            stream->at = put_little_endian(stream->at, (uint32_t)stream->block_left, 2);
            stream->at = put_little_endian(stream->at, (uint32_t)stream->block_left ^ 0xFFFF, 2);
            stream->block = stream->at;
        }
        Py_ssize_t here = size < stream->block_left ? size : stream->block_left;
        stream->at = put_bytes(stream->at, from, here);
        from += here;
        size -= here;
        stream->block_left -= here;
        stream->left -= here;
        if (stream->block_left == 0) {
            stream->crc = crc32_after(stream->crc, stream->block, (size_t)(stream->at - stream->block));
        }
    }
}

static void
put_wrapper(unsigned char *at, Py_ssize_t size, const Some *some, const unsigned char *notes_head)
{
    unsigned char *payload = at + MESSAGE_OVERHEAD, *note = put_bytes(payload, gzip_header, sizeof gzip_header);
    uint32_t here = (uint32_t)(NOTES_HEAD_BYTES + some->note_bytes);
    note = put_little_endian(note, here + 4, 2);
    *note++ = 'K';
    *note++ = 'G';
    note = put_little_endian(note, here, 2);
    put_bytes(note, notes_head, NOTES_HEAD_BYTES);
    put_big_endian(note + NOTES_COUNT_AT, (uint32_t)some->records);
    put_big_endian(note + NOTES_SIZE_AT, (uint32_t)some->note_bytes);
    note += NOTES_HEAD_BYTES;
    Stored values = {note + some->note_bytes, NULL, 0, some->inner_bytes, 0};
    for (const unsigned char *from = some->start; from < some->end;) {
        Record record = record_at(from, some->end);
        unsigned char head[MESSAGE_OVERHEAD];
        put_message_head(head, record.value, record.value_bytes);
        put_stored(&values, head, MESSAGE_OVERHEAD);
        put_stored(&values, record.value, record.value_bytes);
        note = put_note(note, &record);
        from = record.end;
    }
    put_little_endian(put_little_endian(values.at, values.crc, 4), (uint32_t)some->inner_bytes, 4);
    put_big_endian(at, (uint32_t)(size - LENGTH_BYTES));
    at[4] = 1;
    at[5] = GZIP_CODEC;
    put_big_endian(at + 6, crc32_of(payload, (size_t)(size - MESSAGE_OVERHEAD)));
}

static PyObject *
records_wrapper(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[3]; /* position, most_records, most_bytes */
    Py_buffer body;
    if (expect("wrapper", count, 5) < 0 || read_sizes(args + 1, sizes, 3) < 0) {
        return NULL;
    }
    if (!PyBytes_CheckExact(args[4]) || PyBytes_Size(args[4]) != NOTES_HEAD_BYTES) {
        Py_RETURN_NONE;
    }
    if (PyObject_GetBuffer(args[0], &body, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Some some = some_records(&body, sizes[0], sizes[1], sizes[2]);
    PyObject *message = NULL;
    if (some.end != NULL && some.records && NOTES_HEAD_BYTES + some.note_bytes <= MOST_NOTES) {
        Py_ssize_t blocks = (some.inner_bytes + STORED_BYTES - 1) / STORED_BYTES;
        Py_ssize_t size = MESSAGE_OVERHEAD + (Py_ssize_t)sizeof gzip_header + FIELD_BYTES + NOTES_HEAD_BYTES +
                          some.note_bytes + STORED_HEAD_BYTES * blocks + some.inner_bytes + TRAILER_BYTES;
        message = PyBytes_FromStringAndSize(NULL, size);
        if (message != NULL) {
            put_wrapper((unsigned char *)PyBytes_AsString(message), size, &some,
                        (const unsigned char *)PyBytes_AsString(args[4]));
        }
    }
    Py_ssize_t end = message == NULL ? 0 : some.end - (const unsigned char *)body.buf;
    PyBuffer_Release(&body);
    return message == NULL ? none_unless_error() : Py_BuildValue("(Nnn)", message, end, some.records);
}

/* What a message outside wrappers has of a record besides its value: no key, no headers, a timestamp delta of 0. */
static const unsigned char zero = 0, null_size = 1;

static inline Record
plain_record(const unsigned char *value, Py_ssize_t value_bytes)
{
    return (Record){&zero, &null_size, &zero, 1, 1, 1, value, value_bytes, 0, 0, NULL};
}

static PyObject *
records_plain_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t sizes[4]; /* start, end, skip, most_bytes */
    Py_buffer data;
    if (expect("plain_batch", count, 7) < 0 || read_sizes(args + 3, sizes, 4) < 0 ||
        PyObject_GetBuffer(args[2], &data, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t start = sizes[0], end = sizes[1], skip = sizes[2], most_bytes = sizes[3];
    Py_ssize_t records = 0, total = HEADER_BYTES, first = start;
    const unsigned char *bytes = data.buf;
    int is_usual = start >= 0 && end <= data.len;
    for (Py_ssize_t at = start; is_usual && at < end;) {
        Sizes found = uncompressed_sizes(bytes + at, end - at);
        if (!found.overhead) {
            is_usual = 0;
            break;
        }
        at += found.overhead + found.payload;
        if (skip > 0) {
            skip--;
            first = at;
            continue;
        }
        Record record = plain_record(NULL, found.payload);
        Py_ssize_t size = record_bytes(&record, records);
        size += number_bytes((uint64_t)size);
        if (records && total + size > most_bytes) {
            break;
        }
        total += size;
        records++;
    }
    PyObject *batch = is_usual ? new_batch(args[1], total) : NULL;
    if (batch == NULL) {
        PyBuffer_Release(&data);
        return none_unless_error();
    }
    unsigned char *to = (unsigned char *)PyBytes_AsString(batch) + HEADER_BYTES;
    const unsigned char *at = bytes + first;
    for (Py_ssize_t index = 0; index < records; index++) {
        Sizes found = sizes_of(big_endian(at), at[4]);
        Record record = plain_record(at + found.overhead, found.payload);
        to = put_record(to, &record, index);
        at += found.overhead + found.payload;
    }
    PyBuffer_Release(&data);
    batch = sealed(batch, args[0], records);
    return batch == NULL ? NULL : Py_BuildValue("(Nn)", batch, records);
}

/* Read the next record of a wrapper from its message and its note; the `end` of what does not add up is NULL. */
static inline Record
wrapped_record(Reader *messages, Reader *notes, int64_t *timestamp_delta)
{
    Record record = note_at(notes->at, notes->end, timestamp_delta);
    Sizes found = uncompressed_sizes(messages->at, messages->end - messages->at);
    if (record.end == NULL || !found.overhead) {
        record.end = NULL;
        return record;
    }
    record.value = messages->at + found.overhead;
    record.value_bytes = record.is_null ? 0 : found.payload;
    messages->at += found.overhead + found.payload;
    notes->at = record.end;
    return record;
}

/* Return the batch of records, or NULL as `new_batch` does. */
static PyObject *
wrapped_batch(PyObject *const *args, Reader messages, Reader notes, Py_ssize_t records, int is_append_time)
{
    if (!PyBytes_CheckExact(args[1]) || PyBytes_Size(args[1]) != HEADER_BYTES) {
        return NULL;
    }
    const Reader first_message = messages, first_note = notes;
    const unsigned char *head = (const unsigned char *)PyBytes_AsString(args[1]) + BASE_TIMESTAMP_AT;
    uint64_t base = (uint64_t)big_endian(head) << 32 | big_endian(head + 4);
    int64_t latest = INT64_MIN, delta;
    Py_ssize_t total = HEADER_BYTES;
    for (Py_ssize_t index = 0; index < records; index++) {
        Record record = wrapped_record(&messages, &notes, &delta);
        if (record.end == NULL) {
            return NULL;
        }
        Py_ssize_t size = record_bytes(&record, index);
        total += size + number_bytes((uint64_t)size);
        int64_t timestamp = (int64_t)(base + (uint64_t)delta);
        latest = timestamp > latest ? timestamp : latest;
    }
    if (messages.at != messages.end || notes.at != notes.end || records < 1) {
        return NULL;
    }
    PyObject *batch = new_batch(args[1], total);
    if (batch == NULL) {
        return NULL;
    }
    unsigned char *data = (unsigned char *)PyBytes_AsString(batch), *to = data + HEADER_BYTES;
    put_int64(data + MAX_TIMESTAMP_AT, is_append_time ? (int64_t)base : latest);
    messages = first_message;
    notes = first_note;
    for (Py_ssize_t index = 0; index < records; index++) {
        Record record = wrapped_record(&messages, &notes, &delta);
        to = put_record(to, &record, index);
    }
    return sealed(batch, args[0], records);
}

static PyObject *
records_wrapped_batch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t records;
    Py_buffer inner, notes;
    if (expect("wrapped_batch", count, 6) < 0 || read_sizes(args + 4, &records, 1) < 0) {
        return NULL;
    }
    int is_append_time = PyObject_IsTrue(args[5]);
    if (is_append_time < 0 || PyObject_GetBuffer(args[2], &inner, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (PyObject_GetBuffer(args[3], &notes, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&inner);
        return NULL;
    }
    const unsigned char *message = inner.buf, *note = notes.buf;
    PyObject *batch = wrapped_batch(args, (Reader){message, message + inner.len}, (Reader){note, note + notes.len},
                                    records, is_append_time);
    PyBuffer_Release(&inner);
    PyBuffer_Release(&notes);
    return batch == NULL ? none_unless_error() : batch;
}

static PyObject *
records_newest(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t records;
    Py_buffer notes;
    if (expect("newest", count, 3) < 0 || read_sizes(args + 1, &records, 1) < 0) {
        return NULL;
    }
    int64_t base = PyLong_AsLongLong(args[2]), newest = INT64_MIN, delta;
    if ((base == -1 && PyErr_Occurred()) || PyObject_GetBuffer(args[0], &notes, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *at = notes.buf, *end = at + notes.len;
    for (Py_ssize_t index = 0; index < records && at != NULL; index++) {
        at = note_at(at, end, &delta).end;
        int64_t timestamp = (int64_t)((uint64_t)base + (uint64_t)delta);
        newest = timestamp > newest ? timestamp : newest;
    }
    PyBuffer_Release(&notes);
    if (at != end || records < 1) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(newest);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"check", FAST(records_check), METH_FASTCALL, "Return whether bytes are a number of good records."},
    {"take", FAST(records_take), METH_FASTCALL, "Return an inner set, its notes, where they end, and how many; or None."},
    {"wrapper", FAST(records_wrapper), METH_FASTCALL, "Return the message of records, where they end, and how many; or None."},
    {"plain_batch", FAST(records_plain_batch), METH_FASTCALL, "Return the batch for a run, and how many it holds; or None."},
    {"wrapped_batch", FAST(records_wrapped_batch), METH_FASTCALL, "Return the batch of a wrapper's records, or None."},
    {"newest", FAST(records_newest), METH_FASTCALL, "Return the largest timestamp of a wrapper's records, or None."},
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
    .m_name = "kafka2011.gateway.records._records",
    .m_doc = "Records in C; records_python.py is the same in Python.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__records(void)
{
    return PyModuleDef_Init(&definition);
}
