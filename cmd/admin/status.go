package main

import (
	"cmp"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// bucketStatus says whether a bucket is open, or all that keeps it from being so.
func bucketStatus(b queue.Bucket) string {
	words := closedWords(b.Paused, b.Draining)
	if !b.Hold.IsZero() {
		words = append(words, "held until "+moment(b.Hold))
	}
	if b.Sick != "" {
		words = append(words, "sick: "+b.Sick)
	}
	return orOpen(words)
}

func classStatus(c queue.Class) string { return orOpen(closedWords(c.Paused, c.Draining)) }

func closedWords(paused, draining bool) []string {
	var words []string
	if paused {
		words = append(words, "paused")
	}
	if draining {
		words = append(words, "draining")
	}
	return words
}

func orOpen(words []string) string { return cmp.Or(strings.Join(words, ", "), "open") }
