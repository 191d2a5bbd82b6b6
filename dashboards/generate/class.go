package main

func classBoard() board {
	return board{
		uid: "spout-class", title: "Spout: class", byClass: true,
		about: "One class: what is offered, what leaves and at which rate, why jobs wait, and what becomes of them.",
		rows: []row{
			{"Offered and departed", []panel{
				{
					title: "Offered", unit: perSec, warn: 1000, bad: 1e4, about: "Submissions by door and result, of the programs that are scraped.",
					queries: []query{{`sum by (door, result) (rate(spout_offered_total{job=~"$job", class=~"$class"}[$__rate_interval]))`, "{{door}} {{result}}"}},
				},
				{
					title: "Departures", unit: perSec, warn: 1000, bad: 1e4,
					about: "Departures, and the most that there may be: the rate of a key times the buckets that are in use.",
					queries: []query{
						{`max by (class) (rate(spout_class_departed_total{job=~"$job", class=~"$class"}[$__rate_interval]))`, "{{class}} departed"},
						{`max by (class) (spout_class_rate{job=~"$job", class=~"$class"} * spout_class_buckets{job=~"$job", class=~"$class"})`, "{{class}} most"},
					},
				},
				{
					title: "Rejected", unit: perSec, warn: 1, bad: 100, about: "Submissions refused, by reason: full, class_full, would_expire, …",
					queries: []query{by("spout_class_rejected_total", "reason")},
				},
			}},
			{"Waiting", []panel{
				{
					title: "Level", unit: none, warn: 1e5, bad: 1e6, about: "Jobs in line, delayed or parked, over all keys.",
					queries: []query{most("spout_class_level")},
				},
				{
					title: "Fullest bucket seen", unit: share, warn: .8, bad: 1,
					about: "Level by capacity of the fullest of a few buckets: those that open first and last. admin top looks at more.",
					queries: []query{{`max by (class) (spout_class_fullest_level{job=~"$job", class=~"$class"}
/ spout_class_capacity{job=~"$job", class=~"$class"})`, "{{class}}"}},
				},
				{
					title: "Time to empty", unit: seconds, warn: 3600, bad: 86400, about: "Longest time that a line takes to empty at its rate, of a few buckets.",
					queries: []query{most("spout_class_time_to_empty_seconds")},
				},
				{
					title: "Wait", unit: seconds, warn: 60, bad: 600, about: "From joining the line to the first start.",
					queries: []query{quantile(.5, "spout_wait_seconds", "class"), quantile(.99, "spout_wait_seconds", "class")},
				},
				{
					title: "Stalled and held", unit: seconds, warn: 60, bad: 600,
					about: "For how long a head has been due without departing, and how long a held bucket stays closed.",
					queries: []query{
						{`max by (class) (spout_class_stalled_seconds{job=~"$job", class=~"$class"})`, "{{class}} stalled"},
						{`max by (class) (spout_class_hold_seconds{job=~"$job", class=~"$class"})`, "{{class}} held"},
					},
				},
				{
					title: "Buckets", unit: none, warn: 1e5, bad: 1e6,
					about: "Buckets that have jobs or remember their last departure, those closed until told otherwise, and whether the class is paused.",
					queries: []query{
						{`max by (class) (spout_class_buckets{job=~"$job", class=~"$class"})`, "{{class}} in use"},
						{`max by (class) (spout_class_closed_buckets{job=~"$job", class=~"$class"})`, "{{class}} closed"},
						{`max by (class) (spout_class_paused{job=~"$job", class=~"$class"})`, "{{class}} paused"},
					},
				},
			}},
			{"Attempts", []panel{
				{
					title: "Lateness", unit: seconds, warn: .05, bad: .1, about: "Start of the handler minus the departure's due time: the service level.",
					queries: []query{quantile(.5, "spout_lateness_seconds", "class"), quantile(.99, "spout_lateness_seconds", "class")},
				},
				{
					title: "Run", unit: seconds, warn: 5, bad: 30, about: "Time that handlers ran, by outcome, 99th percentile.",
					queries: []query{quantile(.99, "spout_run_seconds", "outcome")},
				},
				{
					title: "Holds", unit: seconds, warn: 60, bad: 1800, about: "For how long called services asked to be left alone, 99th percentile.",
					queries: []query{quantile(.99, "spout_hold_seconds", "class")},
				},
				{
					title: "Out", unit: none, warn: 1000, bad: 1e4, about: "Departures that are not settled.",
					queries: []query{most("spout_class_out")},
				},
				{
					title: "Finished", unit: perSec, warn: 1000, bad: 1e4, about: "Jobs that became final, by outcome.",
					queries: []query{by("spout_class_finished_total", "outcome")},
				},
				{
					title: "Returned", unit: perSec, warn: 1, bad: 100, about: "Jobs that went back to their bucket, by reason. Each one costs a departure.",
					queries: []query{by("spout_class_returned_total", "reason")},
				},
				{
					title: "Sent again", unit: perSec, warn: 1, bad: 100, about: "Submissions answered as the first time, dead jobs sent round again, and verdicts that came too late.",
					queries: []query{
						total("spout_class_duplicates_total", "duplicates", ""), total("spout_class_revived_total", "revived", ""),
						total("spout_class_refused_verdicts_total", "refused verdicts", ""),
					},
				},
			}},
		},
	}
}
