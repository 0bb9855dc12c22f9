package genesis

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
)

func TestClustersThatHaveGroupsAreKnown(t *testing.T) {
	s := clienttest.New(t)
	c := s.Start(t)
	if err := NoGroupsLeft(t.Context(), c, 0); err != nil {
		t.Errorf("without groups: %v", err)
	}
	s.Set("worker", func(*clienttest.Group) {})
	s.Set("api", func(*clienttest.Group) {})
	if err := NoGroupsLeft(t.Context(), c, 0); !errors.Is(err, ErrGroupsLeft) || !strings.Contains(err.Error(), "api, worker") {
		t.Errorf("with groups: %v", err)
	}
	s.Fail("ListGroups", status.Error(codes.PermissionDenied, "no"))
	if err := NoGroupsLeft(t.Context(), c, 0); err == nil || errors.Is(err, ErrGroupsLeft) {
		t.Errorf("when nobody may ask: %v", err)
	}
	if err := NoGroupsLeft(t.Context(), client.Context{Cluster: "demo"}, 0); err != nil {
		t.Errorf("coordinators that never proved themselves: %v", err)
	}
}
