package wire

import "github.com/impart-im/impart"

// Decode reads one frame of a client. The error is an [*impart.Error] with
// BAD_FRAME or TOO_LARGE whose message names the field; rid is whatever rid
// could be read, with an error too.
func Decode(data []byte) (frame Frame, rid string, err error) {
	return nil, "", impart.Errorf(impart.BadFrame, "decoding is not built yet")
}

// DecodeAs reads the fields of a frame of type t from a JSON object that has
// neither "t" nor "rid" (an HTTP body); both are ignored if present. Errors as
// in [Decode].
func DecodeAs(t string, data []byte) (Frame, error) {
	return nil, impart.Errorf(impart.BadFrame, "decoding is not built yet")
}
