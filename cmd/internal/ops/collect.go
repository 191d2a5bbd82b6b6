package ops

import (
	"log/slog"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// Collect shows the whole installation, too.
func (o *Ops) Collect(client *queue.Client, log *slog.Logger) {
	o.Registry.MustRegister(queue.NewCollector(client, log), scheduler.NewAsynqCollector(client.Redis()))
}
