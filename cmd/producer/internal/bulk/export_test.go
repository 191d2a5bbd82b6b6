package bulk

// Hold sets how much of the input is held, so that a test of the bound need not fill memory.
func (o *Options) Hold(lines, bytes int) { o.hold = bounds{lines, bytes} }
