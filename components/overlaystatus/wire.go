package overlaystatus

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/overlay"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

func wireLink(s overlay.SessionInfo, changes []overlay.PathChange) *overlayv1.Link {
	out := &overlayv1.Link{
		Peer: s.Peer.Slot, Group: s.Peer.Group, BootId: s.BootID, Coordinator: s.Peer.Group == overlay.CoordinatorGroup,
		State: string(s.State), Since: instant(s.Since),
		Path: string(s.Path), PathReason: s.PathReason, PathSince: instant(s.PathSince),
		Local: s.Local, Remote: s.Remote, Carrier: s.Carrier, Rtt: duration(s.RTT),
		BytesIn: s.BytesIn, BytesOut: s.BytesOut, PacketsSent: s.PacketsSent, PacketsLost: s.PacketsLost,
		Streams: uint32(max(s.Streams, 0)), PathChanges: s.PathChanges, Searches: s.Searches, Searching: s.Searching,
		LastError: s.LastError,
	}
	for _, kind := range s.Standby {
		out.Standby = append(out.Standby, string(kind))
	}
	for _, c := range s.Candidates {
		out.Candidates = append(out.Candidates, &overlayv1.Candidate{
			Path: string(c.Kind), Remote: c.Remote, Rtt: duration(c.RTT), Loss: c.Loss, InUse: c.InUse,
		})
	}
	for _, c := range changes {
		out.Changes = append(out.Changes, &overlayv1.PathChange{
			At: instant(c.At), From: string(c.From), To: string(c.To), Reason: c.Reason,
		})
	}
	return out
}

func wirePing(r overlay.PingResult) *overlayv1.Ping {
	out := &overlayv1.Ping{}
	for _, s := range r.Samples {
		one := &overlayv1.PingSample{Rtt: duration(s.RTT), Path: string(s.Path), Carrier: s.Carrier}
		if s.Err != nil {
			one.Rtt, one.Error = nil, s.Err.Error()
		}
		out.Samples = append(out.Samples, one)
	}
	return out
}

func wireBench(r overlay.BenchResult) *overlayv1.Bench {
	direction := overlayv1.Direction_DIRECTION_SEND
	if r.Direction == overlay.BenchReceive {
		direction = overlayv1.Direction_DIRECTION_RECEIVE
	}
	return &overlayv1.Bench{
		Direction: direction, Bytes: r.Bytes, Took: duration(r.Took), Path: string(r.Path), Carrier: r.Carrier,
		Moved: r.Moved, Rtt: duration(r.RTT), LoadedRtt: duration(r.LoadedRTT),
	}
}

// duration is unset for a missing measurement.
func duration(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
