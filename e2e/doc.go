// Package e2e holds black-box tests: the real binaries, built with the race detector, against real redis-server processes and
// a service that sees every call with one clock. What is measured against asynq is in bench.
//
// A test fills some buckets (lines) of a site, does something to its programs or its Redis, waits until all jobs are
// final, and holds what the service saw against the laws: the pace of each bucket over all attempts, the order, no job
// missing, and none called twice unless something that befell its worker at that moment explains it (fault).
//
// Tests whose programs have little to do run side by side, as many as there are processors; the others run alone, since they
// measure when calls arrive under load.
//
// With SPOUT_E2E_LOGS=DIR, the log of each worker is kept in DIR, and all calls of a test that failed; -e2e.seed=N repeats what a test chose at random.
package e2e
