/* Encodes events of flat schemas: what EventEncoder has fastavro do, for values that are plainly of a field's type.

   A program is compiled once for a schema (`flat_encoder.py`): for each field its name, its kind, which branch of its union
   is null, and whether it may be missing. Whatever is unusual is left to fastavro, which judges it and says what is wrong:
   then the answer is None.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

enum { INT, LONG, DOUBLE, BOOLEAN, STRING, BYTES, KINDS }; /* as flat_encoder.py numbers them */

#define CAPSULE "kafka2011.events._encode.program"
#define MOST_BYTES_OF_NUMBER 10
#define ON_STACK 1024

typedef struct {
    PyObject *name;
    int kind;
    int null_branch;     /* 0 or 1 in a union with null, else -1 */
    int may_be_missing;  /* null is the default */
} Field;

typedef struct {
    PyObject *head; /* what each payload begins with */
    Py_ssize_t count;
    Field fields[];
} Program;

typedef struct {
    char *bytes;
    size_t size, room;
    char first[ON_STACK];
} Output;

/* Make room for so many bytes more; -1, with an exception, where there is no memory. */
static int
reserve(Output *output, size_t more)
{
    if (more <= output->room - output->size) {
        return 0;
    }
    if (more > (size_t)PY_SSIZE_T_MAX / 4 - output->size) {
        PyErr_NoMemory();
        return -1;
    }
    size_t room = 2 * (output->size + more);
    char *bytes = PyMem_Malloc(room);
    if (bytes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(bytes, output->bytes, output->size);
    if (output->bytes != output->first) {
        PyMem_Free(output->bytes);
    }
    output->bytes = bytes;
    output->room = room;
    return 0;
}

/* There must be room for a number. */
static void
put_number(Output *output, int64_t number)
{
    uint64_t folded = ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
    while (folded >= 0x80) {
        output->bytes[output->size++] = (char)(folded | 0x80);
        folded >>= 7;
    }
    output->bytes[output->size++] = (char)folded;
}

static int
put_text(Output *output, const char *text, Py_ssize_t size)
{
    if (reserve(output, (size_t)size + MOST_BYTES_OF_NUMBER) < 0) {
        return -1;
    }
    put_number(output, size);
    memcpy(output->bytes + output->size, text, (size_t)size);
    output->size += (size_t)size;
    return 0;
}

/* Say 1 if a number was put, 0 if it is none of this kind. */
static int
put_integer(Output *output, PyObject *value, int kind)
{
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || (kind == INT && (number < INT32_MIN || number > INT32_MAX))) {
        return 0;
    }
    put_number(output, number);
    return 1;
}

/* Put a value that is not None; 0 if it is not plainly of its field's kind, -1 for an error. */
static int
put_value(Output *output, PyObject *value, int kind)
{
    switch (kind) {
    case INT:
    case LONG:
        return put_integer(output, value, kind);
    case BOOLEAN:
        if (!PyBool_Check(value)) {
            return 0;
        }
        output->bytes[output->size++] = value == Py_True;
        return 1;
    case DOUBLE: {
        if (!PyFloat_CheckExact(value)) {
            return 0;
        }
        double number = PyFloat_AsDouble(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        for (int shift = 0; shift < 64; shift += 8) {
            output->bytes[output->size++] = (char)(bits >> shift);
        }
        return 1;
    }
    case STRING: {
        if (!PyUnicode_CheckExact(value)) {
            return 0;
        }
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text == NULL) { /* half of a surrogate pair, which is no UTF-8 */
            PyErr_Clear();
            return 0;
        }
        return put_text(output, text, size) < 0 ? -1 : 1;
    }
    default: {
        char *text;
        Py_ssize_t size;
        if (!PyBytes_CheckExact(value)) {
            return 0;
        }
        return PyBytes_AsStringAndSize(value, &text, &size) < 0 || put_text(output, text, size) < 0 ? -1 : 1;
    }
    }
}

static int
put_field(Output *output, const Field *field, PyObject *value)
{
    if (reserve(output, 2 * MOST_BYTES_OF_NUMBER) < 0) {
        return -1;
    }
    if (field->null_branch < 0) {
        return put_value(output, value, field->kind);
    }
    if (value == Py_None) {
        put_number(output, field->null_branch);
        return 1;
    }
    put_number(output, !field->null_branch);
    return put_value(output, value, field->kind);
}

/* Put all fields; 0 if the event is for Python, as where it has fields that the schema does not, -1 for an error. */
static int
put_event(Output *output, const Program *program, PyObject *event)
{
    Py_ssize_t found = 0;
    for (Py_ssize_t at = 0; at < program->count; at++) {
        const Field *field = &program->fields[at];
        PyObject *value = PyDict_GetItemWithError(event, field->name);
        if (value == NULL) {
            if (PyErr_Occurred()) {
                return -1;
            }
            if (!field->may_be_missing) {
                return 0;
            }
            value = Py_None;
        } else {
            found++;
        }
        int done = put_field(output, field, value);
        if (done <= 0) {
            return done;
        }
    }
    return found == PyDict_Size(event);
}

static PyObject *
encode(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "encode() takes a program and an event");
        return NULL;
    }
    const Program *program = PyCapsule_GetPointer(args[0], CAPSULE);
    if (program == NULL) {
        return NULL;
    }
    if (!PyDict_CheckExact(args[1])) {
        Py_RETURN_NONE;
    }
    Output output;
    output.bytes = output.first;
    output.size = 0;
    output.room = ON_STACK;
    char *head;
    Py_ssize_t head_bytes;
    PyObject *payload = NULL;
    if (PyBytes_AsStringAndSize(program->head, &head, &head_bytes) == 0 && reserve(&output, (size_t)head_bytes) == 0) {
        memcpy(output.bytes, head, (size_t)head_bytes);
        output.size = (size_t)head_bytes;
        int done = put_event(&output, program, args[1]);
        if (done > 0) {
            payload = PyBytes_FromStringAndSize(output.bytes, (Py_ssize_t)output.size);
        } else if (done == 0) {
            payload = Py_NewRef(Py_None);
        }
    }
    if (output.bytes != output.first) {
        PyMem_Free(output.bytes);
    }
    return payload;
}

static void
free_program(Program *program)
{
    Py_XDECREF(program->head);
    for (Py_ssize_t at = 0; at < program->count; at++) {
        Py_XDECREF(program->fields[at].name);
    }
    PyMem_Free(program);
}

static void
end_program(PyObject *capsule)
{
    free_program(PyCapsule_GetPointer(capsule, CAPSULE));
}

/* program(head, [(name, kind, null_branch, may_be_missing), ...]) */
static PyObject *
make_program(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *head, *fields;
    if (!PyArg_ParseTuple(args, "SO!:program", &head, &PyList_Type, &fields)) {
        return NULL;
    }
    Py_ssize_t count = PyList_Size(fields);
    Program *program = PyMem_Calloc(1, sizeof *program + (size_t)count * sizeof(Field));
    if (program == NULL) {
        return PyErr_NoMemory();
    }
    program->head = Py_NewRef(head);
    for (Py_ssize_t at = 0; at < count; at++) {
        Field *field = &program->fields[at];
        PyObject *given = PyList_GetItem(fields, at), *name;
        if (given == NULL || !PyTuple_Check(given) ||
            !PyArg_ParseTuple(given, "Uiip", &name, &field->kind, &field->null_branch, &field->may_be_missing)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a field is a tuple");
            }
            free_program(program);
            return NULL;
        }
        if (field->kind < 0 || field->kind >= KINDS || field->null_branch < -1 || field->null_branch > 1 ||
            (field->may_be_missing && field->null_branch < 0)) {
            PyErr_Format(PyExc_ValueError, "no kind of field: %R", given);
            free_program(program);
            return NULL;
        }
        field->name = Py_NewRef(name);
        PyUnicode_InternInPlace(&field->name);
        program->count = at + 1;
    }
    PyObject *capsule = PyCapsule_New(program, CAPSULE, end_program);
    if (capsule == NULL) {
        free_program(program);
    }
    return capsule;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"encode", FAST(encode), METH_FASTCALL,
     "encode(program, event)\n--\n\nReturn the payload of an event, None for one that is not plain."},
    {"program", make_program, METH_VARARGS,
     "program(head, fields)\n--\n\nReturn what `encode` needs to know of a schema."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.events._encode",
    .m_doc = "Encodes plain events of flat schemas.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__encode(void)
{
    return PyModuleDef_Init(&definition);
}
