package main

// What programs share is the same in each, so it is taken as a maximum; see queue.Collector.

func serviceBoard() board {
	return board{
		uid: "spout-service", title: "Spout: service", byClass: true,
		about: "Is the outflow what was promised? The service level first, then what flows, then the store.",
		rows: []row{
			{"Service level", []panel{
				{
					title: "Starts in time", unit: share, single: true, less: true, warn: .99, bad: .999,
					about: "Share of starts that came at most 0.1 s after they were due, over the time shown. The objective is 99 %.",
					queries: []query{{`sum(increase(spout_lateness_seconds_bucket{job=~"$job", class=~"$class", le="0.1"}[$__range]))
/ sum(increase(spout_lateness_seconds_count{job=~"$job", class=~"$class"}[$__range]))`, "in time"}},
				},
				{
					title: "Longest stall", unit: seconds, single: true, warn: 5, bad: 60,
					about:   "For how long the head of a bucket has been due without departing.",
					queries: []query{{`max(spout_class_stalled_seconds{job=~"$job", class=~"$class"})`, "stalled"}},
				},
				{
					title: "Workers", unit: none, single: true, less: true, warn: 1, bad: 2, about: "Workers whose beat moves.",
					queries: []query{{`max(spout_workers{job=~"$job"})`, "workers"}},
				},
				{
					title: "Books off", unit: none, single: true, warn: 1, bad: 1,
					about:   "What did not balance at the last audit of all books. Anything but 0 is a fault.",
					queries: []query{{`sum(max by (class) (spout_books_off{job=~"$job", class=~"$class"}))`, "off"}},
				},
				{
					title: "Sick buckets", unit: none, single: true, warn: 1, bad: 1, about: "Buckets that are broken in Redis and do not depart.",
					queries: []query{{`max(spout_sick_buckets{job=~"$job"})`, "sick"}},
				},
				{
					title: "Dead jobs", unit: none, single: true, warn: 1, bad: 1000, about: "Dead jobs that are kept for an operator.",
					queries: []query{{`sum(max by (class) (spout_class_dead_jobs{job=~"$job", class=~"$class"}))`, "dead"}},
				},
				{
					title: "Lateness, 99th percentile", unit: seconds, warn: .05, bad: .1,
					about:   "Start of the handler minus the departure's due time.",
					queries: []query{quantile(.99, "spout_lateness_seconds", "class")},
				},
				{
					title: "Error budget burn", unit: none, warn: 1, bad: 14.4,
					about: "How many times faster than allowed the budget of late starts (1 % in 30 days) is used up.",
					queries: []query{{`(1 - sum by (class) (rate(spout_lateness_seconds_bucket{job=~"$job", class=~"$class", le="0.1"}[$__rate_interval]))
/ sum by (class) (rate(spout_lateness_seconds_count{job=~"$job", class=~"$class"}[$__rate_interval]))) / 0.01`, "{{class}}"}},
				},
				{
					title: "Slots", unit: none, warn: 1e4, bad: 1e5,
					about: "Attempts that run at once, those that may, and those that are needed: Σ min(inflow, rate) × mean run. An autoscaler should follow the last.",
					queries: []query{
						{`sum(spout_slots_used{job=~"$job"})`, "used"},
						{`sum(spout_slots{job=~"$job"})`, "there are"},
						{`spout:slots_needed`, "needed"},
					},
				},
			}},
			{"Flow", []panel{
				{
					title: "In and out", unit: perSec, warn: 1e4, bad: 2e4, about: "Jobs admitted, departures, and jobs that became final.",
					queries: []query{
						total("spout_class_admitted_total", "admitted", ""), total("spout_class_departed_total", "departed", ""),
						total("spout_class_finished_total", "finished", ", outcome"),
					},
				},
				{
					title: "Level", unit: none, warn: 1e5, bad: 1e6, about: "Jobs that hold a place in their buckets.",
					queries: []query{most("spout_class_level")},
				},
				{
					title: "Rejected", unit: perSec, warn: 1, bad: 100, about: "Submissions refused, by reason.",
					queries: []query{by("spout_class_rejected_total", "reason")},
				},
			}},
			{"Store", []panel{
				{
					title: "Memory of Redis", unit: size, warn: 16e9, bad: 64e9, about: "What Redis uses, and its maxmemory (0 for none). Admission stops at 80 % of it.",
					queries: []query{
						{`max by (node) (spout_redis_memory_used_bytes{job=~"$job"})`, "used {{node}}"},
						{`max by (node) (spout_redis_memory_limit_bytes{job=~"$job"})`, "limit {{node}}"},
					},
				},
				{
					title: "Scripts, 99th percentile", unit: seconds, warn: .005, bad: .025, about: "Time from sending a script to its reply.",
					queries: []query{{`histogram_quantile(0.99, sum by (le, script) (rate(spout_script_seconds_bucket{job=~"$job"}[$__rate_interval])))`, "{{script}}"}},
				},
				{
					title: "Submissions, 99th percentile", unit: seconds, warn: .025, bad: .25, about: "Time that a submission took to be answered, by door.",
					queries: []query{{`histogram_quantile(0.99, sum by (le, door) (rate(spout_submit_seconds_bucket{job=~"$job"}[$__rate_interval])))`, "{{door}}"}},
				},
				{
					title: "Tasks of strangers", unit: none, warn: 1, bad: 1, about: "Tasks in asynq's own lists, where none belongs.",
					queries: []query{{`max by (list) (spout_asynq_tasks{job=~"$job"})`, "{{list}}"}},
				},
			}},
		},
	}
}

// quantile of a histogram of classes.
func quantile(q float64, metric, label string) query {
	text := map[float64]string{.5: "0.5", .9: "0.9", .99: "0.99"}[q]
	return query{
		`histogram_quantile(` + text + `, sum by (le, ` + label + `) (rate(` + metric + `_bucket{job=~"$job", class=~"$class"}[$__rate_interval])))`,
		"{{" + label + "}} p" + text[2:],
	}
}

// most is what all programs say of each class.
func most(metric string) query {
	return query{`max by (class) (` + metric + `{job=~"$job", class=~"$class"})`, "{{class}}"}
}

// total of all classes, per second; more labels tell series of one class apart.
func total(metric, legend, labels string) query {
	return query{`sum(max by (class` + labels + `) (rate(` + metric + `{job=~"$job", class=~"$class"}[$__rate_interval])))`, legend}
}

// by is the total of all classes by one label, per second.
func by(metric, label string) query {
	return query{
		`sum by (` + label + `) (max by (class, ` + label + `) (rate(` + metric + `{job=~"$job", class=~"$class"}[$__rate_interval])))`,
		"{{" + label + "}}",
	}
}

// sum is the total of what each program did itself, per second.
func sum(metric, label string) query {
	return query{`sum by (` + label + `) (rate(` + metric + `{job=~"$job"}[$__rate_interval]))`, "{{" + label + "}}"}
}
