package answer

import "github.com/spout-queue/spout/queue"

// Code is the number that HTTP and NATS answer an error with. 0 is an error that is no answer.
func Code(err error) int {
	switch Reason(err) {
	case queue.ReasonFull, queue.ReasonClassFull, queue.ReasonWouldExpire:
		return 429
	case queue.ReasonStoreFull, queue.ReasonUnavailable, ReasonDenied, ReasonUnfit:
		return 503
	case queue.ReasonDraining, queue.ReasonConflict, ReasonBusy:
		return 409
	case queue.ReasonInvalid:
		return 400
	case queue.ReasonTooLarge:
		return 413
	case queue.ReasonUnknownClass, ReasonNotFound:
		return 404
	case queue.ReasonUnknown:
		return 504
	}
	return 0
}
