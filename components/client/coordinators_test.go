package client_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client/clienttest"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

func TestFactsOfACoordinatorWithoutTheService(t *testing.T) {
	s := clienttest.New(t)
	c := dial(t, s.Start(t))
	s.Fail("GetCoordinators", status.Error(codes.Unimplemented, "unknown service cadre.api.v1.CoordinatorsService"))
	s.SetOverlay(clienttest.Overlay{Links: map[string][]*overlayv1.Link{"coordinator-0": {
		{Peer: "coordinator-1", Coordinator: true, Path: "gateway"},
		{Peer: "coordinator-2", Coordinator: true}, // without a session
		{Peer: "web-0", Group: "web", Path: "gateway"},
	}}})
	got, err := c.CoordinatorFacts(t.Context())
	if err != nil || !got.Older || got.Slot != "coordinator-0" || got.Leader == "" || got.Sessions != 1 || !slices.Equal(got.Connected, []string{"coordinator-1"}) {
		t.Errorf("facts %+v, %v", got, err)
	}
}
