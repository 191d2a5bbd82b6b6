// Package e2e holds black-box tests: the real binaries against real redis-server processes and a recording server. What is
// measured against asynq is in bench.
package e2e
