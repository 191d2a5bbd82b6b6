// Package queue keeps jobs in bounded FIFO buckets on Redis and lets them leave at a fixed rate.
//
// A bucket belongs to one class, which holds the settings, and one key: a tenant, an endpoint, an address. A producer
// submits a job to a bucket and is answered at once: admitted, with a position and an estimated start, or rejected, with
// the time to come back. Jobs leave a bucket one interval apart, whoever drains it and however many do.
//
// Producers need [Open], [Client.Submit] and its two variants, [Client.SubmitMany] and [Client.SubmitWait]. Operators
// need [Client.Classes] and [Client.Buckets]. Package scheduler is the other side: it calls [Outlet.Depart] and
// [Outlet.Settle], runs the jobs and says what became of them.
//
// # Delivery
//
// A submission is idempotent by its identity, which is class, key and id: sending it again is the same job, answered
// as the first time with [Duplicate]. An id is chosen by the caller or by the SDK before the first send, so that a
// submission whose outcome is [ErrUnknown] can be repeated with the id that the error names. A job starts at least once;
// what may start it twice is told in docs/architecture.md.
//
// # Time
//
// All times are the Redis server's, in microseconds. Producers and workers may have wrong clocks.
//
// # Limits
//
// A class name is [a-z0-9][a-z0-9_-]{0,63}; a key has 1 to 256 bytes and an id or type 1 to 128 bytes of UTF-8 without
// control characters; a payload is any JSON value up to the class's max_payload, at most 1 MiB. Redis must be 7.0 or
// later (or Valkey), must not evict keys, and every key of a shard lies in one hash slot, so that a cluster serves as well
// as a single server.
//
// All methods are safe for concurrent use unless they say otherwise.
package queue
