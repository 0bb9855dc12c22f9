package dashboard

import (
	"context"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/audit"
	"cadre.dev/core/policy"
	"cadre.dev/platform"
)

// The intervals of polling. A coordinator answers each of these from memory or with a few reads of Consul.
const (
	everyCluster   = 3 * time.Second
	everyGroup     = 5 * time.Second
	everyInstance  = 2 * time.Second
	everyOperation = 2 * time.Second
	everyOverlay   = 3 * time.Second
	everyAdmission = 5 * time.Second
	everyAudit     = 5 * time.Second
	// The judgement asks every coordinator and, for their list, the platform.
	everyStatus = 15 * time.Second
	// The platform is outside and has a limit of calls.
	everyPlatform = 30 * time.Second
)

func (s *Server) clusterSource() source {
	return poll("cluster", everyCluster, func(ctx context.Context) (a clusterAnswer, err error) {
		if a.cluster, err = s.Client.Cluster(ctx); err != nil {
			return a, err
		}
		if a.groups, err = s.Client.Groups(ctx); err != nil {
			return a, err
		}
		if a.overrides, err = s.Client.Overrides(ctx, ""); err != nil {
			return a, err
		}
		if a.operations, err = s.Client.Operations(ctx, "", false); err != nil {
			return a, err
		}
		a.requests, err = s.Client.Requests(ctx, "")
		return a, err
	})
}

// statusSource judges the cluster as `cadre status` does.
func (s *Server) statusSource() source {
	return poll("status", everyStatus, func(ctx context.Context) (overview.Report, error) {
		return s.Assess(ctx), nil
	})
}

// cvmSource lists the coordinators' CVMs, if the context names a platform.
func (s *Server) cvmSource() source {
	return poll("cvms", everyPlatform, func(ctx context.Context) (cvmAnswer, error) {
		if s.List == nil {
			return cvmAnswer{}, nil
		}
		list, err := s.List(ctx, s.Client.Context().CoordinatorAppID)
		return cvmAnswer{list: list, known: true}, err
	})
}

func (s *Server) groupSource(name string) source {
	return poll("more/"+name, everyGroup, func(ctx context.Context) (a groupAnswer, err error) {
		if a.group, err = s.Client.Group(ctx, name); err != nil {
			return a, err
		}
		if a.rollouts, err = s.Client.Rollouts(ctx, name); err != nil {
			return a, err
		}
		a.overrides, err = s.Client.Overrides(ctx, name)
		return a, err
	})
}

// nodeSource has the node of each slot of a group. The coordinators ask the platform about it, so the page waits longer.
func (s *Server) nodeSource(name string) source {
	return poll("nodes/"+name, everyPlatform, func(ctx context.Context) (map[string]string, error) {
		list, err := s.Client.Instances(ctx, name)
		nodes := map[string]string{}
		for _, i := range list {
			if node := format.Node(i); node != "" {
				nodes[i.Slot] = node
			}
		}
		return nodes, err
	})
}

func (s *Server) instanceSource(slot string) source {
	return poll("instance/"+slot, everyInstance, func(ctx context.Context) (a instanceAnswer, err error) {
		if a.instance, err = s.Client.Instance(ctx, slot); err != nil {
			return a, err
		}
		// The rest of the page does not depend on it.
		if explained, err := s.Client.ExplainAdmission(ctx, slot); err != nil {
			a.unexplained = err
		} else {
			a.explained = &explained
		}
		return a, nil
	})
}

func (s *Server) operationSource(all bool) source {
	key := "operations"
	if all {
		key = "operations/all"
	}
	return poll(key, everyOperation, func(ctx context.Context) (a operationsAnswer, err error) {
		if a.operations, err = s.Client.Operations(ctx, "", all); err != nil {
			return a, err
		}
		if a.requests, err = s.Client.Requests(ctx, ""); err != nil {
			return a, err
		}
		a.overrides, err = s.Client.Overrides(ctx, "")
		return a, err
	})
}

func (s *Server) overlaySource(slot string) source {
	return poll("overlay/"+slot, everyOverlay, func(ctx context.Context) (client.Overlay, error) { return s.Client.Overlay(ctx, slot, "") })
}

func (s *Server) admissionSource() source {
	return poll("admissions", everyAdmission, func(ctx context.Context) ([]policy.AdmissionStatus, error) { return s.Client.Admissions(ctx, "") })
}

func (s *Server) auditSource() source {
	return poll("audit", everyAudit, func(ctx context.Context) ([]audit.Entry, error) { return readAudit(ctx, s.Client) })
}

// Lister lists the CVMs of an app on the platform.
type Lister func(ctx context.Context, appID string) ([]platform.Instance, error)
