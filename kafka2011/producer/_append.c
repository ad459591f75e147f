/* Appends one payload to the open batch of its topic: what Accumulator._append_payload does, in C.

   No lock is taken. Whoever holds the accumulator's lock may be anywhere within Python code, so as long as somebody holds
   it, Python is to wait for it. If nobody does, nobody can get it while this runs: nothing here runs Python code or gives
   up the interpreter's lock once it has looked. Whatever is unusual is left to Python too.

   Only the stable ABI of Python 3.11 is used, so one build serves every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <structmember.h>

/* What a batch, or a queue, may still take: the base of both, as `_Room` of appending.py. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t messages, bytes;
} Room;

typedef struct {
    PyObject_HEAD
    PyObject *batches;   /* dict: the open one of each topic */
    PyObject *is_locked; /* says whether somebody has the lock */
    PyObject *otherwise; /* what Python does */
} Appender;

typedef struct {
    PyObject *room_type, *appender_type, *bound_name, *payloads_name;
} State;

static PyMemberDef room_members[] = {
    {"room_messages", T_PYSSIZET, offsetof(Room, messages), 0, "How many messages more."},
    {"room_bytes", T_PYSSIZET, offsetof(Room, bytes), 0, "How many bytes more."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot room_slots[] = {
    {Py_tp_doc, "What may still be taken, in messages and bytes."},
    {Py_tp_members, room_members},
    {0, NULL},
};

static PyType_Spec room_spec = {
    .name = "kafka2011.producer._append.Room",
    .basicsize = sizeof(Room),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = room_slots,
};

/* Append to a batch if it, and its queue, have room and it stays open; say whether that was done, -1 for an error. */
static int
append_to(const State *state, PyObject *batch, PyObject *payload)
{
    PyTypeObject *room_type = (PyTypeObject *)state->room_type;
    int appended = 0;
    PyObject *bound = PyObject_GetAttr(batch, state->bound_name);
    PyObject *payloads = bound == NULL ? NULL : PyObject_GetAttr(batch, state->payloads_name);
    if (payloads == NULL) {
        appended = -1;
    } else if (PyObject_TypeCheck(batch, room_type) && PyObject_TypeCheck(bound, room_type) &&
               PyList_CheckExact(payloads)) {
        Room *of_batch = (Room *)batch, *of_queue = (Room *)bound;
        Py_ssize_t size = PyBytes_Size(payload);
        if (of_batch->messages > 1 && of_batch->bytes >= size && of_queue->messages > 0) {
            appended = PyList_Append(payloads, payload) < 0 ? -1 : 1;
            if (appended == 1) {
                of_batch->messages--;
                of_batch->bytes -= size;
                of_queue->messages--;
            }
        }
    }
    Py_XDECREF(bound);
    Py_XDECREF(payloads);
    return appended;
}

static PyObject *
appender_append(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const Appender *appender = (const Appender *)self;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "append() takes a topic and a payload");
        return NULL;
    }
    PyObject *module = PyType_GetModule(Py_TYPE(self));
    const State *state = module == NULL ? NULL : PyModule_GetState(module);
    if (state == NULL) {
        return NULL;
    }
    if (PyUnicode_CheckExact(args[0]) && PyBytes_CheckExact(args[1])) { /* the others could run Python code below */
        PyObject *locked = PyObject_CallNoArgs(appender->is_locked);
        if (locked == NULL) {
            return NULL;
        }
        int is_free = locked == Py_False;
        Py_DECREF(locked);
        PyObject *batch = is_free ? PyDict_GetItemWithError(appender->batches, args[0]) : NULL;
        if (batch != NULL) {
            Py_INCREF(batch);
            int appended = append_to(state, batch, args[1]);
            if (appended == 1) {
                return batch;
            }
            Py_DECREF(batch);
        }
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return PyObject_CallFunctionObjArgs(appender->otherwise, args[0], args[1], NULL);
}

static int
appender_traverse(PyObject *self, visitproc visit, void *arg)
{
    Appender *appender = (Appender *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(appender->batches);
    Py_VISIT(appender->is_locked);
    Py_VISIT(appender->otherwise);
    return 0;
}

/* Like deallocation this comes only once nobody can call it any more. */
static int
appender_clear(PyObject *self)
{
    Appender *appender = (Appender *)self;
    Py_CLEAR(appender->batches);
    Py_CLEAR(appender->is_locked);
    Py_CLEAR(appender->otherwise);
    return 0;
}

static void
appender_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    appender_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef appender_methods[] = {
    {"append", FAST(appender_append), METH_FASTCALL, "Append a payload to its topic's open batch, and return that."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot appender_slots[] = {
    {Py_tp_doc, "Appends payloads to open batches."}, {Py_tp_methods, appender_methods},
    {Py_tp_traverse, appender_traverse},              {Py_tp_clear, appender_clear},
    {Py_tp_dealloc, appender_dealloc},                {0, NULL},
};

static PyType_Spec appender_spec = {
    .name = "kafka2011.producer._append.Appender",
    .basicsize = sizeof(Appender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = appender_slots,
};

/* Return the method that appends: of batches in a dict, unless a function says that somebody has the lock. */
static PyObject *
append_appender(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyDict_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "appender() takes a dict and two functions");
        return NULL;
    }
    const State *state = PyModule_GetState(module);
    PyTypeObject *type = (PyTypeObject *)state->appender_type;
    Appender *appender = (Appender *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (appender == NULL) {
        return NULL;
    }
    Py_INCREF(appender->batches = args[0]);
    Py_INCREF(appender->is_locked = args[1]);
    Py_INCREF(appender->otherwise = args[2]);
    PyObject *append = PyObject_GetAttrString((PyObject *)appender, "append");
    Py_DECREF(appender);
    return append;
}

static PyMethodDef methods[] = {
    {"appender", FAST(append_appender), METH_FASTCALL, "Return what appends payloads to the open batches in a dict."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->bound_name = PyUnicode_InternFromString("bound");
    state->payloads_name = PyUnicode_InternFromString("payloads");
    state->room_type = PyType_FromModuleAndSpec(module, &room_spec, NULL);
    state->appender_type = PyType_FromModuleAndSpec(module, &appender_spec, NULL);
    if (state->bound_name == NULL || state->payloads_name == NULL || state->room_type == NULL ||
        state->appender_type == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Room", state->room_type);
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->room_type);
    Py_VISIT(state->appender_type);
    return 0;
}

static int
clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->room_type);
    Py_CLEAR(state->appender_type);
    Py_CLEAR(state->bound_name);
    Py_CLEAR(state->payloads_name);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kafka2011.producer._append",
    .m_doc = "Appends payloads to open batches.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC
PyInit__append(void)
{
    return PyModuleDef_Init(&definition);
}
