package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// bucketStatus says whether a bucket is open, or all that keeps it from being so.
func bucketStatus(b queue.Bucket) string {
	words := closedWords(b.Paused, b.Draining)
	if !b.Hold.IsZero() {
		words = append(words, heldWords(b.Hold, b.HoldReason))
	}
	if b.Sick != "" {
		words = append(words, "sick: "+b.Sick)
	}
	return orOpen(words)
}

func classStatus(c queue.Class) string {
	words := closedWords(c.Paused, c.Draining)
	if c.Hold.After(time.Now()) {
		words = append(words, heldWords(c.Hold, c.HoldReason))
	}
	return orOpen(words)
}

func heldWords(until time.Time, reason string) string {
	if reason == "" {
		return "held until " + moment(until)
	}
	return "held until " + moment(until) + " by " + reason
}

// bucketRate is the rate of a bucket, and what it is down to.
func bucketRate(b queue.Bucket) string {
	if b.Adapted == nil {
		return b.Rate.String()
	}
	part := func(share float64) string {
		return strconv.FormatFloat(share*float64(b.Rate.Limit), 'f', 1, 64)
	}
	return fmt.Sprintf("%s, now %s, sustained %s", b.Rate, part(b.Adapted.Now), part(b.Adapted.Sustained))
}

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
