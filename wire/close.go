package wire

// CloseCode is the WebSocket close code that follows a bye with this code.
func (c ByeCode) CloseCode() uint16 {
	switch c {
	case ByeDrain:
		return 1001
	case ByeSuperseded:
		return 4001
	case ByeIdle:
		return 4002
	case ByeExpired:
		return 4003
	case ByeRevoked:
		return 4004
	default:
		return 1011
	}
}
