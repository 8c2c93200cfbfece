package wire

// name is a field name of protocol v1 that some decoder reads. A scan keeps one
// span for each, so that a frame is walked once, whatever the order of its
// fields and wherever its "t" stands.
type name uint8

const (
	nT name = iota
	nRID
	nToken
	nDevice
	nInstall
	nN
	nProto
	nHistory
	nFeatures
	nConv
	nCMID
	nBody
	nType
	nExt
	nPrev
	nSeq
	nEpoch
	nAcks
	nAfter
	nBefore
	nAfterMID
	nLimit
	nMID
	// The send request of the HTTP API.
	nConvID
	nClientMsgID
	nText
	// Frames of the server.
	nUser
	nInstallEpoch
	nConn
	nNow
	nLimits
	nFrame
	nInflight
	nAckEvery
	nHeartbeatMS
	nConvs
	nMore
	nHead
	nDelivered
	nRead
	nFloor
	nDup
	nAt
	nEvents
	nThrough
	nFailed
	nCode
	nKind
	nUnread
	nLast
	nUsers
	nDevices
	nEv
	nSender
	nTarget
	nTargetMID
	nBy
	nRecalled
	nWhy
	nMessage
	nRetry
	nRetryAfterMS
	nReconnectAfterMS
	nFinal
	numNames
)

// names are the names as they stand in a frame.
var names = [numNames]string{
	nT: "t", nRID: "rid", nToken: "token", nDevice: "device", nInstall: "install", nN: "n", nProto: "proto",
	nHistory: "history", nFeatures: "features", nConv: "conv", nCMID: "cmid", nBody: "body", nType: "type",
	nExt: "ext", nPrev: "prev", nSeq: "seq", nEpoch: "epoch", nAcks: "acks", nAfter: "after", nBefore: "before",
	nAfterMID: "after_mid", nLimit: "limit", nMID: "mid",
	nConvID: "conv_id", nClientMsgID: "client_msg_id", nText: "text",
	nUser: "user", nInstallEpoch: "install_epoch", nConn: "conn", nNow: "now", nLimits: "limits", nFrame: "frame",
	nInflight: "inflight", nAckEvery: "ack_every", nHeartbeatMS: "heartbeat_ms", nConvs: "convs", nMore: "more",
	nHead: "head", nDelivered: "delivered", nRead: "read", nFloor: "floor", nDup: "dup", nAt: "at",
	nEvents: "events", nThrough: "through", nFailed: "failed", nCode: "code", nKind: "kind", nUnread: "unread",
	nLast: "last", nUsers: "users", nDevices: "devices", nEv: "ev", nSender: "sender", nTarget: "target",
	nTargetMID: "target_mid", nBy: "by", nRecalled: "recalled", nWhy: "why", nMessage: "message", nRetry: "retry",
	nRetryAfterMS: "retry_after_ms", nReconnectAfterMS: "reconnect_after_ms", nFinal: "final",
}

// nameOf finds the name that a frame's text stands for.
var nameOf = func() map[string]name {
	index := make(map[string]name, numNames)
	for n, text := range names {
		index[text] = name(n)
	}
	return index
}()
