package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	overviewPath = "/?show=50"
	classPath    = "/class?name=" + busyClass
	coldStarts   = 5
	warmLoads    = 50
	manyTabs     = 20
	settleTime   = 8 * time.Second // until what is shown stands, and rates are known
)

// dashboard: what the pages cost the admin and Redis, with 10,000 buckets of which the 50 on the screen move all the time.
func dashboard(ctx context.Context, b *bench) (rows []row, err error) {
	binary, err := b.buildAdmin(ctx)
	if err != nil {
		return nil, err
	}
	client, err := townOf(ctx, b)
	if err != nil {
		return nil, err
	}
	stop, err := move(ctx, client)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	heard, err := b.overhear(ctx)
	if err != nil {
		return nil, err
	}
	defer heard.Close() //nolint:errcheck // only read
	for _, part := range []func(context.Context, *bench, string, *overheard) ([]row, error){coldPages, warmPages, tabs, redisShare} {
		more, err := part(ctx, b, binary, heard)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// coldPages: the overview of an admin that nobody asked anything yet.
func coldPages(ctx context.Context, b *bench, binary string, heard *overheard) ([]row, error) {
	var first []float64
	var most commands
	for range coldStarts {
		a, err := b.serve(ctx, binary)
		if err != nil {
			return nil, err
		}
		v := newVisitor(a.url)
		<-time.After(time.Second) // it has connected, and rests
		before := heard.soFar()
		_, took, err := v.get(ctx, overviewPath)
		ran := heard.soFar().minus(before)
		v.client.CloseIdleConnections()
		a.stop()
		if err != nil {
			return nil, err
		}
		if first = append(first, ms(took)); ran.sent > most.sent {
			most = ran
		}
	}
	return []row{
		{"overview of 10,000 buckets, the first page that an admin serves: first byte", "< 50 ms", spanOf(first, "%.1f") + " ms"},
		{"the same: Redis commands, the most", "< 200", most.String()},
	}, nil
}

// warmPages: the same while somebody looks already; and what a browser loads.
func warmPages(ctx context.Context, b *bench, binary string, heard *overheard) ([]row, error) {
	a, err := b.serve(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	v := newVisitor(a.url)
	defer v.client.CloseIdleConnections()
	var first []float64
	begun := time.Now()
	before := heard.soFar()
	for i := range warmLoads + 1 {
		_, took, err := v.get(ctx, overviewPath)
		if err != nil {
			return nil, err
		}
		if i == 0 { // nobody had looked
			<-time.After(settleTime)
			begun, before = time.Now(), heard.soFar()
			continue
		}
		first = append(first, ms(took))
		<-time.After(100 * time.Millisecond)
	}
	ran, took := heard.soFar().minus(before), time.Since(begun)
	rows := []row{
		{"the same while somebody looks: first byte", "< 50 ms", spanOf(first, "%.1f") + fmt.Sprintf(" ms, p90 %.1f", quantile(first, 0.9))},
		{"the same: Redis commands of 10 such pages in a second, and of the looking", "", perSecondOf(ran, took)},
	}
	for _, page := range []struct{ what, path string }{{"overview", overviewPath}, {"page of a class, with its charts", classPath}} {
		all, own, err := weigh(ctx, a.url, page.path)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			"everything a browser loads of the " + page.what + ", compressed", "< 150 KB",
			fmt.Sprintf("%.1f KB, the page itself %.1f KB", float64(all)/1000, float64(own)/1000),
		})
	}
	return rows, nil
}

func perSecondOf(c commands, in time.Duration) string {
	return fmt.Sprintf("%.0f/s sent, %.0f/s with those inside scripts", float64(c.sent)/in.Seconds(), float64(c.sent+c.inside)/in.Seconds())
}

// tabs: what it costs to look, by none, one, two and many.
func tabs(ctx context.Context, b *bench, binary string, heard *overheard) ([]row, error) {
	a, err := b.serve(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	var open []*tab
	var rows []row
	loads := map[int]load{}
	for _, n := range []int{0, 1, 2, manyTabs} {
		for len(open) < n {
			t, err := openTab(ctx, a.url, overviewPath)
			if err != nil {
				return nil, err
			}
			open = append(open, t)
		}
		<-time.After(settleTime)
		loads[n] = look(a, heard, open, b.pace)
	}
	for _, t := range open {
		if err := t.stop(); err != nil {
			return nil, err
		}
	}
	none, one := loads[0], loads[1]
	rows = append(rows,
		row{"a tab of 50 moving buckets: updates a second", "4", fmt.Sprintf("%.2f, of %.0f buckets each", one.updates, one.moved)},
		row{"the same: processor time of the admin", "< 2 % of a core", fmt.Sprintf("%.2f %%, without a tab %.2f %%", one.cpu, none.cpu)},
		row{"the same: Redis commands", "< 60/s", fmt.Sprintf("%s; without a tab %.1f/s and %.1f/s", one.commands(), none.sent, none.all)},
		row{"(the same: KB/s, parts fetched again a second)", "", fmt.Sprintf("%.1f, %.2f", one.bytes/1000, one.parts)},
	)
	for _, n := range []int{2, manyTabs} {
		extra := loads[n].less(one, n-1)
		rows = append(rows, row{
			fmt.Sprintf("each further tab, of %d: processor time; Redis commands", n), "< 2 %; < 60/s",
			fmt.Sprintf("%.2f %%; %s; %.2f updates/s, %.1f KB/s", extra.cpu, extra.commands(), loads[n].updates/float64(n), loads[n].bytes/1000/float64(n)),
		})
	}
	return rows, nil
}

// load is what was done in a second: cpu in percent of a core, commands sent and all, updates of all tabs and buckets in one.
type load struct{ cpu, sent, all, updates, moved, parts, bytes float64 }

// less is what each of n more tabs came to.
func (l load) less(was load, n int) load {
	f := float64(n)
	return load{cpu: (l.cpu - was.cpu) / f, sent: (l.sent - was.sent) / f, all: (l.all - was.all) / f}
}

func (l load) commands() string {
	return fmt.Sprintf("%.1f/s sent, %.1f/s with those inside scripts", l.sent, l.all)
}

// look measures for a while.
func look(a *admin, heard *overheard, open []*tab, long time.Duration) load {
	sums := func() (s [4]int64) {
		for _, t := range open {
			for i, n := range []int64{t.updates.Load(), t.moved.Load(), t.parts.Load(), t.bytes.Load()} {
				s[i] += n
			}
		}
		return s
	}
	begun, cpu, ran, was := time.Now(), a.cpuTime(), heard.soFar(), sums()
	<-time.After(long)
	took := time.Since(begun).Seconds()
	cpu, ran = a.cpuTime()-cpu, heard.soFar().minus(ran)
	per := func(n int64) float64 { return float64(n) / took }
	now := sums()
	l := load{cpu: 100 * cpu.Seconds() / took, sent: per(ran.sent), all: per(ran.sent + ran.inside)}
	l.updates, l.parts, l.bytes = per(now[0]-was[0]), per(now[2]-was[2]), per(now[3]-was[3])
	if n := now[0] - was[0]; n > 0 {
		l.moved = float64(now[1]-was[1]) / float64(n)
	}
	return l
}
