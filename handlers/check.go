package handlers

// CheckCall reports why an http:call payload cannot be called, or nil: what [HTTPCall] would fail for good because of the
// payload alone. What the class of the job allows is not looked at. The error holds nothing of the url that may be
// secret.
func CheckCall(payload []byte) error {
	_, err := parseCall(payload)
	return err
}

// CheckPayload reports why the handler for jobs of type typ, if it is one of this package, would fail a payload for good.
// It is what queue.Options.Check takes: then a bad job is refused where it is submitted.
func CheckPayload(typ string, payload []byte) error {
	var err error
	switch typ {
	case HTTPCallType:
		return CheckCall(payload)
	case WebhookType:
		_, err = parseMessage(payload)
	case NATSPublishType:
		_, err = parseMsg(payload)
	case ExecType:
		_, err = parseExec(payload)
	}
	if err != nil {
		return permanent(nil, "bad %s payload: %s", typ, err)
	}
	return nil
}
