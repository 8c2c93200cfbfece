package wire

// WebSocket close codes that follow a bye. The private ones (4000..4999, RFC
// 6455 section 7.4.2) let a client whose bye was lost still know whether it may
// return; what only the WebSocket layer can find uses the standard codes (1002,
// 1007, 1008, 1009).
const (
	CloseGoingAway  uint16 = 1001 // DRAIN: the server stops, come back after the delay
	CloseInternal   uint16 = 1011 // a reason that has no code of its own
	CloseSuperseded uint16 = 4001 // SUPERSEDED: final
	CloseIdle       uint16 = 4002 // IDLE
	CloseExpired    uint16 = 4003 // EXPIRED: come back with a new token
	CloseRevoked    uint16 = 4004 // REVOKED: final
)

// ByeCodes lists every reason; tests check each mapper against it.
func ByeCodes() []ByeCode {
	return []ByeCode{ByeDrain, ByeSuperseded, ByeIdle, ByeExpired, ByeRevoked}
}

// CloseCode is the WebSocket close code that follows a bye with this code.
func (c ByeCode) CloseCode() uint16 {
	switch c {
	case ByeDrain:
		return CloseGoingAway
	case ByeSuperseded:
		return CloseSuperseded
	case ByeIdle:
		return CloseIdle
	case ByeExpired:
		return CloseExpired
	case ByeRevoked:
		return CloseRevoked
	default:
		return CloseInternal
	}
}

// ByeOfClose is the reason behind a close code, for a client that saw the close
// without the bye; "" for a code that follows no bye.
func ByeOfClose(code uint16) ByeCode {
	for _, bye := range ByeCodes() {
		if bye.CloseCode() == code {
			return bye
		}
	}
	return ""
}
