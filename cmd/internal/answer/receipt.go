package answer

import (
	"fmt"

	"github.com/spout-queue/spout/queue"
)

// Receipt prints the receipt of one job.
func Receipt(p *Printer, receipt queue.Receipt) error {
	type column = Column[queue.Receipt]
	return One(p, receipt,
		column{"ref", func(r queue.Receipt) any { return r.Ref }},
		column{"id", func(r queue.Receipt) any { return r.ID }},
		column{"status", func(r queue.Receipt) any { return r.Status }},
		column{"position", func(r queue.Receipt) any { return r.Position }},
		column{"level", func(r queue.Receipt) any { return fmt.Sprintf("%d of %d", r.Level, r.Capacity) }},
		column{"starts", func(r queue.Receipt) any {
			return fmt.Sprintf("%s (in %v)", r.EstimatedStart.Format(queue.TimeFormat), r.Wait)
		}},
		column{"ack", func(r queue.Receipt) any {
			if r.Ack == queue.AckMemory { // what every receipt vouches for
				return ""
			}
			return r.Ack
		}},
		column{"dropped", func(r queue.Receipt) any { return r.Dropped }})
}
