package doctor

var (
	ExamineServer = examineServer
	CheckLatency  = checkLatency
	CheckClock    = checkClock
	Merge         = merge
)
