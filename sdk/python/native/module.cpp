// SPDX-License-Identifier: Apache-2.0
// threadbox._native: the engine in this process. Two types, Engine and Mailbox, and one exception;
// what the operations mean is in src/embed/operations.h, and their arguments in jobs.cpp.
#include <sys/syscall.h>

#include "aside.h"
#include "pending.h"

namespace tb::python {
namespace {

constexpr Milliseconds kLook = 100ms;  // between looks for signals that came just before the wait
constexpr Milliseconds kStop = 2s;     // for a command to end that is not wanted any more

PyObject* error_type = nullptr;
PyObject* mailbox_type = nullptr;

struct EngineObject {
  PyObject_HEAD std::shared_ptr<embed::Engine>* engine;
};

struct MailboxObject {
  PyObject_HEAD std::shared_ptr<Mailbox>* mailbox;
};

// Runs `body`; what it throws becomes a Python error.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body().release();
  } catch (const Raised&) {
    return nullptr;
  } catch (...) {
    try {
      raise(std::current_exception(), error_type);
    } catch (const Raised&) {
      // Not even that: then the other error is set.
    }
    return nullptr;
  }
}

embed::Engine& engine_of(PyObject* self) { return **reinterpret_cast<EngineObject*>(self)->engine; }

std::string_view name_of(PyObject* object) {
  Py_ssize_t size = 0;
  const char* name = PyUnicode_AsUTF8AndSize(object, &size);
  if (!name) throw Raised{};
  return {name, static_cast<std::size_t>(size)};
}

// Signals are Python's main thread's to handle; the others need not look.
bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

// Throws Raised when a signal's handler did (KeyboardInterrupt): then it is stopped first.
void wait_for(Pending& pending) {
  std::optional<Milliseconds> limit;
  if (is_main_thread()) limit = kLook;
  for (;;) {
    if (aside([&] { return pending.sleep(limit); })) return;
    if (PyErr_CheckSignals() != 0) break;
  }
  pending.stop();
  aside([&] {
    const auto until = std::chrono::steady_clock::now() + kStop;
    while (!pending.sleep(kLook) && std::chrono::steady_clock::now() < until) {
    }
  });
  throw Raised{};
}

PyObject* engine_call(PyObject* self, PyObject* arguments) {
  return guarded([&] {
    PyObject* name = PyTuple_GetItem(arguments, 0);
    if (!name) throw Raised{};
    const Ref rest = own(PyTuple_GetSlice(arguments, 1, PyTuple_Size(arguments)));
    Job job = make_job(name_of(name), Arguments{rest.get()});
    const auto pending =
        std::make_shared<Pending>(*reinterpret_cast<EngineObject*>(self)->engine, std::move(job));
    aside([&] { pending->start(); });
    wait_for(*pending);
    return pending->answer();
  });
}

PyObject* engine_submit(PyObject* self, PyObject* arguments) {
  return guarded([&] {
    Arguments head{arguments};
    PyObject* box = PyTuple_GetItem(arguments, 0);
    if (!box || !PyObject_IsInstance(box, mailbox_type)) {
      PyErr_SetString(PyExc_TypeError, "submit(mailbox, token, operation, …)");
      throw Raised{};
    }
    const unsigned long long token = PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 1));
    if (PyErr_Occurred()) throw Raised{};
    PyObject* name = PyTuple_GetItem(arguments, 2);
    if (!name) throw Raised{};
    const Ref rest = own(PyTuple_GetSlice(arguments, 3, PyTuple_Size(arguments)));
    Job job = make_job(name_of(name), Arguments{rest.get()});
    const auto pending =
        std::make_shared<Pending>(*reinterpret_cast<EngineObject*>(self)->engine, std::move(job));
    aside([&] { pending->start(*reinterpret_cast<MailboxObject*>(box)->mailbox, token); });
    return none();
  });
}

PyObject* engine_close(PyObject* self, PyObject*) {
  return guarded([&] {
    embed::Engine& engine = engine_of(self);
    aside([&] { engine.close(); });
    return none();
  });
}

PyObject* engine_facts(PyObject* self, PyObject*) {
  return guarded([&] {
    const Config& config = engine_of(self).config();
    return own(Py_BuildValue(
        "{s:s,s:s,s:s,s:n,s:n,s:n,s:K,s:I,s:d,s:d}", "state_dir", config.state_dir.c_str(),
        "policy", config.policy.c_str(), "worker", config.worker_id.c_str(), "pool_size",
        static_cast<Py_ssize_t>(config.pool_size), "min_pool_size",
        static_cast<Py_ssize_t>(config.min_pool_size), "max_pool_size",
        static_cast<Py_ssize_t>(config.max_pool_size), "memory_limit_bytes",
        static_cast<unsigned long long>(config.limits.memory.count), "cpu_quota",
        config.limits.cpu_quota, "session_timeout",
        std::chrono::duration<double>(config.session_timeout).count(), "command_timeout",
        std::chrono::duration<double>(config.command_timeout).count()));
  });
}

PyObject* engine_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded([&] {
    Arguments in{arguments};
    embed::Settings settings;
    settings.program = in.text();
    settings.config = embed::local_config();
    embed::apply(settings.config, in.pairs());
    in.end();
    auto engine = std::make_unique<std::shared_ptr<embed::Engine>>(
        std::make_shared<embed::Engine>(std::move(settings)));
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Ref self = own(allocate(type, 0));
    reinterpret_cast<EngineObject*>(self.get())->engine = engine.release();
    return self;
  });
}

template <class Object>
void release_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

void engine_dealloc(PyObject* self) {
  auto* engine = reinterpret_cast<EngineObject*>(self)->engine;
  aside([&] { delete engine; });
  release_object<EngineObject>(self);
}

PyObject* mailbox_new(PyTypeObject* type, PyObject*, PyObject*) {
  return guarded([&] {
    auto mailbox = std::make_unique<std::shared_ptr<Mailbox>>(std::make_shared<Mailbox>());
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    Ref self = own(allocate(type, 0));
    reinterpret_cast<MailboxObject*>(self.get())->mailbox = mailbox.release();
    return self;
  });
}

void mailbox_dealloc(PyObject* self) {
  delete reinterpret_cast<MailboxObject*>(self)->mailbox;
  release_object<MailboxObject>(self);
}

Mailbox& mailbox_of(PyObject* self) { return **reinterpret_cast<MailboxObject*>(self)->mailbox; }

PyObject* mailbox_fileno(PyObject* self, PyObject*) {
  return guarded([&] { return number(mailbox_of(self).descriptor()); });
}

PyObject* mailbox_stop(PyObject* self, PyObject* token) {
  return guarded([&] {
    const unsigned long long which = PyLong_AsUnsignedLongLong(token);
    if (PyErr_Occurred()) throw Raised{};
    mailbox_of(self).stop(which);
    return none();
  });
}

// One answer as (token, value, None) or (token, None, error).
Ref answer_of(std::uint64_t token, Pending& pending) {
  Ref value;
  Ref failure;
  try {
    value = pending.answer();
  } catch (...) {
    try {
      raise(std::current_exception(), error_type);
    } catch (const Raised&) {
    }
    PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    failure = Ref{error};
    Py_XDECREF(type);
    Py_XDECREF(trace);
  }
  return own(Py_BuildValue("(KOO)", static_cast<unsigned long long>(token),
                           value ? value.get() : Py_None, failure ? failure.get() : Py_None));
}

PyObject* mailbox_take(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref result = own(PyList_New(0));
    for (const auto& [token, pending] : mailbox_of(self).take()) {
      const Ref item = answer_of(token, *pending);
      if (PyList_Append(result.get(), item.get()) != 0) throw Raised{};
    }
    return result;
  });
}

// Of the policies that every installation has; who has others asks his engine.
PyObject* check_command(PyObject*, PyObject* arguments) {
  return guarded([&] {
    static const auto* policies = new policy::Policies{policy::Policies::builtin()};
    Arguments in{arguments};
    const policy::Policy* policy = policies->find(in.text());
    const std::string command = in.text();
    in.end();
    const auto refusal = policy ? policy->check(command) : std::nullopt;
    return refusal ? text(refusal->message) : none();
  });
}

PyMethodDef module_functions[] = {{"check_command", check_command, METH_VARARGS,
                                   "check_command(policy, command): why it is refused, or None."},
                                  {nullptr, nullptr, 0, nullptr}};

PyMethodDef engine_methods[] = {
    {"call", engine_call, METH_VARARGS, "call(operation, …): runs it and waits for its answer."},
    {"submit", engine_submit, METH_VARARGS, "submit(mailbox, token, operation, …): starts it."},
    {"close", engine_close, METH_NOARGS, "Ends the thread; what comes later starts a new one."},
    {"facts", engine_facts, METH_NOARGS, "The settings that answers speak of."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot engine_slots[] = {{Py_tp_new, reinterpret_cast<void*>(engine_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(engine_dealloc)},
                              {Py_tp_methods, engine_methods},
                              {0, nullptr}};
PyType_Spec engine_spec = {"threadbox._native.Engine", sizeof(EngineObject), 0, Py_TPFLAGS_DEFAULT,
                           engine_slots};

PyMethodDef mailbox_methods[] = {
    {"fileno", mailbox_fileno, METH_NOARGS, "Readable when there is something to take."},
    {"take", mailbox_take, METH_NOARGS, "What is done: [(token, value, error)]."},
    {"stop", mailbox_stop, METH_O, "stop(token): ends a command, or the wait for something else."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot mailbox_slots[] = {{Py_tp_new, reinterpret_cast<void*>(mailbox_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(mailbox_dealloc)},
                               {Py_tp_methods, mailbox_methods},
                               {0, nullptr}};
PyType_Spec mailbox_spec = {"threadbox._native.Mailbox", sizeof(MailboxObject), 0,
                            Py_TPFLAGS_DEFAULT, mailbox_slots};

PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                          "threadbox._native",
                          "The engine in this process.",
                          -1,
                          module_functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

PyObject* make_module() {
  return guarded([] {
    Ref module = own(PyModule_Create(&module_def));
    error_type =
        own(PyErr_NewException("threadbox._native.EngineError", nullptr, nullptr)).release();
    Ref engine = own(PyType_FromSpec(&engine_spec));
    mailbox_type = own(PyType_FromSpec(&mailbox_spec)).release();
    const auto add = [&](const char* name, PyObject* object) {
      if (PyModule_AddObjectRef(module.get(), name, object) != 0) throw Raised{};
    };
    add("EngineError", error_type);
    add("Engine", engine.get());
    add("Mailbox", mailbox_type);
    return module;
  });
}

}  // namespace
}  // namespace tb::python

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__native() {
  return tb::python::make_module();
}
