package grpcconn

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// RetryAfter is how long the other side asked its caller to wait before the next
// try, from 0 to most; 0 when err does not say.
func RetryAfter(err error, most time.Duration) time.Duration {
	s, ok := status.FromError(err)
	if !ok {
		return 0
	}
	for _, detail := range s.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return min(max(info.GetRetryDelay().AsDuration(), 0), most)
		}
	}
	return 0
}
