//go:build race

package queue_test

// raceEnabled: the race detector is on, and everything is some five times slower.
const raceEnabled = true
