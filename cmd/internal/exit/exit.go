// Package exit has the exit statuses of all commands, after sysexits.h, and the error that carries one.
package exit

import "fmt"

// The exit statuses. What the answers to submissions exit with is in package answer.
const (
	OK          = 0
	Found       = 1   // doctor found something wrong; bulk skipped jobs
	Usage       = 64  // the command line is wrong
	Data        = 65  // the input is wrong: a job, a class file, a name
	Unavailable = 69  // Redis is away, or its reply was lost
	Broken      = 70  // a bug
	IO          = 74  // a file could not be read, or the answer not be written
	TryLater    = 75  // no room now
	Denied      = 77  // Redis does not let us in
	Config      = 78  // the configuration is wrong, or Redis is not fit
	Interrupted = 130 // SIGINT or SIGTERM
)

// Error ends a command with a status of its own. Without an Err all has been said already.
type Error struct {
	Status int
	Err    error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Silent ends a command that has said all.
func Silent(status int) error { return &Error{Status: status} }

// Usagef says what is wrong with the command line.
func Usagef(format string, args ...any) error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Dataf says what is wrong with the input.
func Dataf(format string, args ...any) error {
	return &Error{Data, fmt.Errorf(format, args...)}
}

// Configf says what is wrong with the configuration.
func Configf(format string, args ...any) error {
	return &Error{Config, fmt.Errorf(format, args...)}
}
