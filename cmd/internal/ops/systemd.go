package ops

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// readyEvery is how often a program that starts is asked whether it is ready.
const readyEvery = 200 * time.Millisecond

// notify tells systemd, where it has started us and asks for it, when the program is ready, that it is alive, and that it
// stops: when ctx ends, or when the returned function is called, which waits for that.
func notify(ctx context.Context, o *Ops, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		if say(ctx, log, "STATUS=starting") {
			watchdog(ctx, o, log)
			say(context.WithoutCancel(ctx), log, daemon.SdNotifyStopping)
		}
	})
	return func() {
		cancel()
		loop.Wait()
	}
}

// watchdog says that the program is ready, and from then on, at half of the interval that systemd asks for, that it lives.
func watchdog(ctx context.Context, o *Ops, log *slog.Logger) {
	for o.Ready() != nil {
		if !pause(ctx, readyEvery) {
			return
		}
	}
	say(ctx, log, daemon.SdNotifyReady+"\nSTATUS=ready")
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		<-ctx.Done()
		return
	}
	for pause(ctx, interval/2) {
		if err := o.Live(); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "the watchdog is not told that we live", slog.Any("error", err))
			continue
		}
		say(ctx, log, daemon.SdNotifyWatchdog)
	}
}

// say tells systemd something. False means that nobody listens.
func say(ctx context.Context, log *slog.Logger, state string) bool {
	sent, err := daemon.SdNotify(false, state)
	if err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "systemd could not be told", slog.Any("error", err))
	}
	return sent
}

// pause waits; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
