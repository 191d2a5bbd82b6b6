// Package redistest gives tests the Redis they need: real redis-server
// processes of their own ([Start], [Cluster], [Sentinel], [TLS]) and miniredis
// ([Mini], [MiniDial]), which differ enough that each hides bugs the other
// shows ([Each]).
//
// Everything listens on loopback ports picked at random, keeps its files in a
// directory of its own and is ended by its process id when the test ends, so
// tests share nothing and run in parallel. One redis-server starts in some
// 10 ms; a cluster needs more than two seconds (Redis waits that long before
// it calls a new cluster ok): share it between subtests.
//
// Failures to start end the test with tb.Fatal, so these functions belong in
// the goroutine of the test. Production code must not import this package.
package redistest
