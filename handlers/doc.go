// Package handlers holds the job handlers that every Spout worker has, and the
// mux that finds a handler by the type of a job.
//
// A handler is a plain [asynq.Handler]: it gets a context and a task, and its
// error decides what becomes of the attempt. [Mux] picks the handler by the exact
// type name; [HTTPCall] is the handler of the type [HTTPCallType], which calls an
// HTTP service once per attempt. [Webhook] sends signed messages, [Callbacks] tells of
// calls that are done or dead, [NATSPublish] publishes, [Exec] runs programs. [Transport] is on
// the other side: it sends the requests of a client of net/http as jobs.
//
// # What a task carries
//
// The scheduler puts these headers on every task; a handler of your own may read
// them too, with task.Headers():
//
//	Spout-Class    the class of the job
//	Spout-Key      the key of its bucket
//	Spout-Id       the id of the job, given by its producer
//	Spout-Ref      the ref of the job, as receipts and commands have it
//	Spout-Attempt  the number of this attempt, from 1 on, in decimal
//	Spout-Http     the http settings of the class; only when they differ from the defaults
//
// Spout-Http is a JSON object in the words of the class file, such as
// {"allow_private":true,"hosts":["a.example"],"max_hold":"10m"}, with each field left
// out when it has its default. A Spout-Http that cannot be read fails the job for
// good: settings that narrow what may be called are never taken for absent.
//
// # Delivery
//
// An attempt may run twice when its worker dies (at least once), so a called
// service should be idempotent; the Spout-Ref of a job is the same in each of its
// attempts and makes a good idempotency key: [HTTPCall] sends it.
//
// An error that wraps [asynq.SkipRetry] fails the job for good; here those are
// unknown types, bad payloads and refused targets. An error with a method
// GiveBack() bool that returns true says that the attempt did not start and
// returns to the head of its bucket. One with a method Hold() (time.Duration, bool), as
// [HoldError] has, does so too, and the bucket, or the class, is held for that long: a
// called service asked to be left alone. Any other error counts as a failed attempt:
// the job waits out its backoff, or what a [RetryAfterError] names, and departs
// again at the rate of its bucket, until the max_attempts of its class.
package handlers
