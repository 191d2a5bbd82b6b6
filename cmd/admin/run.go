package main

import (
	"context"
	"io"

	"github.com/spout-queue/spout/cmd/internal/command"
)

// run is the whole program: it returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &command.Program{
		Name: "admin", Usage: "look after classes, buckets and jobs",
		Flags:  apiFlags(),
		Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
	return p.Run(ctx, args,
		command.Group("class", "settings shared by many buckets",
			classApply(p), classList(p), classGet(p), classRemove(p)),
		command.Group("profile", "class files for well-known APIs", profileList(p), profileGet(p)),
		command.Group("bucket", "the lines of jobs, one per class and key",
			bucketList(p), bucketGet(p), bucketPause(p), bucketResume(p), bucketHold(p), bucketUnhold(p), bucketDrain(p), bucketPurge(p)),
		command.Group("job", "single jobs", jobList(p), jobGet(p), jobCancel(p), jobRetry(p)),
		command.Group("dead", "jobs that are out of attempts or failed for good", deadList(p), deadRetry(p), deadPurge(p)),
		auditCommand(p),
		changesCommand(p),
		serveCommand(p),
		command.Group("token", "who may ask admin serve", tokenNew(p)),
		collectCommand(p),
		topCommand(p),
		exportCommand(p),
		doctorCommand(p),
	)
}
