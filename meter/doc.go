// Package meter answers "may this happen now?" at once, for callers that cannot wait in a line.
//
// A [Limit] is a rate and a burst under one of six algorithms. [New] binds it to a [Store]: [Redis], shared by any
// number of processes, or [Memory], of one process. [Meter.Check] then decides for one key: a tenant, an address,
// a user's action. A refusal is a value, not an error; an error means that nothing could be decided.
//
//	perUser, err := meter.New(meter.Redis(client), meter.Limit{Capacity: 20, Count: 10, Period: time.Second}, meter.Options{})
//	d, err := perUser.Check(ctx, "user:42", 1)
//	if !d.Conform { retry after d.RetryAfter }
//
// # Exactness
//
// Both stores compute with whole numbers and give the same [Decision] for the same trace, to the last digit: times are
// microseconds, debts are microseconds times count, and every number stays below 2^53, where Redis's doubles are exact.
// A limit that could leave that range is refused by [New]. Durations are rounded up.
//
// A refused call changes nothing: only what conforms counts. A cost of 0 changes nothing either. Time never goes back:
// a meter takes the later of the clock and its own last change. Redis meters use the clock of Redis, memory meters
// one monotonic clock.
//
// # Keys
//
// Each rate keeps its own meters: two limits under one key do not disturb each other, and a limit whose rate was changed
// begins anew. Two limits with the same algorithm and rate share the meters of a key, so the key should say what it is:
// "user:42", not "42". On Redis a meter is one small string (of the log: a list of times) that expires when it no
// longer says anything.
//
// A lost reply is not retried by this package, but go-redis may send a command again after a broken connection: a cost
// can then count twice. It never counts less than once.
//
// All types are safe for concurrent use.
package meter
