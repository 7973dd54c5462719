// SPDX-License-Identifier: Apache-2.0
// What Redis does in one step for us. Each answers a list whose first item says what happened.
#pragma once

#include "redis/client.h"

namespace tb::cluster::scripts {

// keys: workers, members; id, epoch, "url capacity used version", "resume" or "new".
// {registered, joined}, {taken, record}: another life has this name, or {over}: there is no such
// life to resume.
const redis::Script& enlist();

// keys: workers, members, run; id, epoch, view, "url capacity used version".
// {renewed, members, state of the run, id, record, id, record, …} or {lost}.
const redis::Script& renew();

// keys: workers; id, record as it was watched. {reaped} or {kept}.
const redis::Script& reap();

// keys: thread, workers, run, next, session; id, epoch, run id, session, time to live in ms. With
// the thread goes the hint where its session is. {claimed, number}, {other, worker, its record,
// session}, {closed} or {lost}.
const redis::Script& claim();

// keys: thread, workers, session; id, epoch, number, session, time to live in ms, "owner" or
// "heir". An owner had its lease all the time: what another live one has with a lower number is an
// old story. An heir had not. {restored}, {other, worker} or {lost}.
const redis::Script& restore();

// keys: thread, session; id, session. Deletes what still names this worker: the hint, and the entry
// if it is this session's. {released} or {kept}.
const redis::Script& release();

// keys: session, workers; id, time to live in ms. The hint where an anonymous session is, of which
// there is nothing else: {restored}, or {other, worker} when a worker that lives has it.
const redis::Script& restore_hint();

// keys: session; id. Deletes the hint if it still names this worker.
const redis::Script& drop_hint();

// keys: thread, session, workers, next; id, epoch, the former owner's id and epoch, session, time
// to live in ms, "thread" or "anonymous". What is that owner's is ours: {moved, number}, {kept} or
// {lost}.
const redis::Script& hand_over();

// keys: run; run id. The state of the run, which is `rebuilding` if it was another's.
const redis::Script& begin();

// keys: run; run id. {open} when it was rebuilding, or is open.
const redis::Script& open();

}  // namespace tb::cluster::scripts
