package main

// each shows one gauge of every program.
func each(metric string) query {
	return query{metric + `{job=~"$job"}`, "{{instance}}"}
}

func workerBoard() board {
	return board{
		uid: "spout-worker", title: "Spout: worker",
		about: "The workers: slots, starts, calls for departures, recovery, and the process itself.",
		rows: []row{
			{"Attempts", []panel{
				{
					title: "Slots in use", unit: share, warn: .8, bad: .95, about: "Attempts that run, of those that may. At 1 due jobs wait for a slot.",
					queries: []query{{`spout_slots_used{job=~"$job"} / spout_slots{job=~"$job"}`, "{{instance}}"}},
				},
				{
					title: "Attempts", unit: perSec, warn: 1e4, bad: 2e4, about: "Attempts that ended, by outcome.",
					queries: []query{sum("spout_attempts_total", "outcome")},
				},
				{
					title: "Lateness, 99th percentile", unit: seconds, warn: .05, bad: .1, about: "Start of the handler minus the departure's due time, by worker.",
					queries: []query{{`histogram_quantile(0.99, sum by (le, instance) (rate(spout_lateness_seconds_bucket{job=~"$job"}[$__rate_interval])))`, "{{instance}}"}},
				},
				{
					title: "Departures taken", unit: perSec, warn: 1e4, bad: 2e4, about: "Departures by worker.",
					queries: []query{sum("spout_departures_total", "instance")},
				},
				{
					title: "Given back", unit: perSec, warn: .1, bad: 10, about: "Departures that did not run to an end here, by reason. Stale ones mean a slow worker or a far Redis.",
					queries: []query{sum("spout_given_back_total", "reason")},
				},
				{
					title: "Unsettled verdicts", unit: none, warn: 64, bad: 1000, about: "Verdicts that Redis has not taken yet.",
					queries: []query{each("spout_unsettled_verdicts")},
				},
			}},
			{"Redis", []panel{
				{
					title: "Calls for departures", unit: perSec, warn: 1000, bad: 5000, about: "By result. Many empty ones are wasted; failed ones mean that Redis does not answer.",
					queries: []query{sum("spout_depart_calls_total", "result")},
				},
				{
					title: "Hints", unit: perSec, warn: 1000, bad: 5000, about: "Hints that a bucket became the earliest due, by shard.",
					queries: []query{sum("spout_wakes_total", "shard")},
				},
				{
					title: "Age of the last answer", unit: seconds, warn: 3, bad: 8, about: "Time since a shard answered. At 8 s the worker ends its handlers, at 10 s others take its jobs.",
					queries: []query{{`max by (instance) (spout_beat_age_seconds{job=~"$job"})`, "{{instance}}"}},
				},
				{
					title: "Scripts, 99th percentile", unit: seconds, warn: .005, bad: .025, about: "Time from sending a script to its reply.",
					queries: []query{{`histogram_quantile(0.99, sum by (le, script) (rate(spout_script_seconds_bucket{job=~"$job"}[$__rate_interval])))`, "{{script}}"}},
				},
				{
					title: "Connections", unit: none, warn: 100, bad: 1000, about: "Connections to Redis, and those that nothing uses.",
					queries: []query{
						{`spout_redis_connections{job=~"$job"}`, "{{instance}}"},
						{`spout_redis_connections_idle{job=~"$job"}`, "{{instance}} idle"},
					},
				},
				{
					title: "Connection trouble", unit: perSec, warn: .1, bad: 10, about: "Calls that got no connection in time, new connections, and broken ones.",
					queries: []query{
						{`sum(rate(spout_redis_pool_timeouts_total{job=~"$job"}[$__rate_interval]))`, "timeouts"},
						{`sum(rate(spout_redis_pool_misses_total{job=~"$job"}[$__rate_interval]))`, "new"},
						{`sum(rate(spout_redis_stale_connections_total{job=~"$job"}[$__rate_interval]))`, "broken"},
					},
				},
			}},
			{"Recovery", []panel{
				{
					title: "Taken from others", unit: perSec, warn: .01, bad: 1, about: "Jobs taken back from workers that are gone.",
					queries: []query{
						sum("spout_reclaimed_jobs_total", "fate"),
						{`sum(rate(spout_reclaimed_workers_total{job=~"$job"}[$__rate_interval]))`, "workers"},
					},
				},
				{
					title: "Repairs", unit: perSec, warn: .01, bad: 1,
					about: "Jobs that a worker and Redis did not agree on, shards without contact, data that turned out to be old, and lost replies.",
					queries: []query{
						sum("spout_repaired_jobs_total", "fate"),
						{`sum(rate(spout_lost_contact_total{job=~"$job"}[$__rate_interval]))`, "lost contact"},
						{`sum(rate(spout_rollbacks_total{job=~"$job"}[$__rate_interval]))`, "old data"},
						{`sum(rate(spout_lost_replies_total{job=~"$job"}[$__rate_interval]))`, "lost replies"},
					},
				},
				{
					title: "Refused verdicts", unit: perSec, warn: .01, bad: 1, about: "Verdicts on departures that were no longer out, by class.",
					queries: []query{sum("spout_refused_verdicts_total", "class")},
				},
			}},
			{"Process", []panel{
				{
					title: "CPU", unit: none, warn: 1, bad: 4, about: "Processors in use.",
					queries: []query{sum("process_cpu_seconds_total", "instance")},
				},
				{
					title: "Memory", unit: size, warn: 1e9, bad: 4e9, about: "Resident memory.",
					queries: []query{each("process_resident_memory_bytes")},
				},
				{
					title: "Goroutines", unit: none, warn: 1e4, bad: 1e5, about: "Goroutines. They follow the slots in use.",
					queries: []query{each("go_goroutines")},
				},
			}},
		},
	}
}
