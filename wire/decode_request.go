package wire

import (
	"github.com/impart-im/impart"
)

// DecodeSendRequest reads the body of POST /api/msg/send, a send frame under
// other names: conv_id (a string, or an integer that stands for its decimal
// text), client_msg_id, text, and optionally type, ext, prev and epoch. Errors as
// in [Decode].
func DecodeSendRequest(data []byte) (*Send, error) {
	s := open(data)
	defer s.close()
	if refused := s.document(); refused != nil {
		return nil, refused
	}
	frame := s.message("", s.convID(), nClientMsgID, nText)
	if s.err != nil {
		return nil, s.err
	}
	return frame, nil
}

// convID reads conv_id. A number is kept digit for digit, so that ids of 64 bits
// are as good as others.
func (s *scanner) convID() impart.ConvID {
	raw := s.raw(nConvID)
	if len(raw) == 0 || raw[0] == '"' || raw[0] > '9' {
		return impart.ConvID(s.id(nConvID, impart.MaxID))
	}
	for at, c := range raw {
		if (c < '0' || c > '9') && (c != '-' || at > 0) {
			s.refuse(impart.BadFrame, "conv_id must be a string or an integer without fraction or exponent")
			return ""
		}
	}
	if err := impart.CheckID(names[nConvID], string(raw), impart.MaxID); err != nil && s.err == nil {
		s.err = impart.AsError(err)
	}
	return impart.ConvID(raw)
}
