package client

import (
	"encoding/json"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// Millis is a duration that JSON shows as milliseconds.
type Millis time.Duration

// MarshalJSON encodes milliseconds, to the microsecond.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(rounded(time.Duration(m).Seconds() * 1000))
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

func linkOf(l *overlayv1.Link) Link {
	out := Link{
		Peer: l.GetPeer(), Group: l.GetGroup(), Coordinator: l.GetCoordinator(), BootID: l.GetBootId(),
		State: l.GetState(), Since: instant(l.GetSince()),
		Path: l.GetPath(), PathReason: l.GetPathReason(), PathSince: instant(l.GetPathSince()),
		Local: l.GetLocal(), Remote: l.GetRemote(), Carrier: l.GetCarrier(), Standby: l.GetStandby(), RTT: millis(l.GetRtt()),
		BytesIn: l.GetBytesIn(), BytesOut: l.GetBytesOut(), PacketsSent: l.GetPacketsSent(), PacketsLost: l.GetPacketsLost(),
		Streams: l.GetStreams(), PathChanges: l.GetPathChanges(), Searches: l.GetSearches(), Searching: l.GetSearching(),
		LastError: l.GetLastError(),
	}
	for _, c := range l.GetCandidates() {
		out.Candidates = append(out.Candidates, Candidate{
			Path: c.GetPath(), Remote: c.GetRemote(), RTT: millis(c.GetRtt()), Loss: share(c.GetLoss()), InUse: c.GetInUse(),
		})
	}
	for _, c := range l.GetChanges() {
		out.Changes = append(out.Changes, PathChange{At: instant(c.GetAt()), From: c.GetFrom(), To: c.GetTo(), Reason: c.GetReason()})
	}
	return out
}

// share returns v as a share from 0 to 1. JSON cannot encode NaN, so an invalid value becomes 0.
func share(v float64) float64 {
	if !(v >= 0) {
		return 0
	}
	return rounded(min(v, 1))
}

func millis(d *durationpb.Duration) Millis { return Millis(d.AsDuration()) }

// instant converts t; an unknown time becomes the zero time.
func instant(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
