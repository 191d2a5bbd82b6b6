package handlers

// EncodeOutput is the result of a program that wrote stdout.
func EncodeOutput(stdout []byte) ([]byte, error) { return encodeOutput(stdout) }
