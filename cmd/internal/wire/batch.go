package wire

// Batch is many submissions in one request.
type Batch struct {
	Jobs []Job `json:"jobs" nullable:"false" maxItems:"1000" doc:"Each is answered on its own."`
}

// BatchAnswer is the answer to a [Batch]: one to each job, in their order.
type BatchAnswer struct {
	Results []Answer `json:"results" nullable:"false"`
}
