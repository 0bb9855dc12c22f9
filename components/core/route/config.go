package route

import (
	"fmt"

	"cadre.dev/core/group"
)

// Config is Consul's configuration in addition to the catalog.
type Config struct {
	// Services are the backends that routes lead to, sorted by name.
	Services []Service
	// Routes, sorted by group and name.
	Routes []Redirect
}

// Service is one backend: its permitted callers, and its subsets.
type Service struct {
	Name string
	// Callers are the identities that an intention allows, sorted; empty: none.
	Callers []string
	// Subsets by name: the roles, and [Any]. Each has the filter of its instances; only healthy
	// instances count.
	Subsets map[string]string
}

// Redirect leads calls of a route's name to a subset of a service.
type Redirect struct {
	Route, Service, Subset string
}

// Any is the subset of all healthy instances of every role. The validation of specs rejects a role
// of this name.
const Any = group.AnyRole

// subset returns the name of a role's subset.
func subset(role string) string {
	if role == "" {
		return Any
	}
	return role
}

func (c *Config) service(name string, callers, roles []string) {
	subsets := map[string]string{Any: ""}
	for _, role := range roles {
		subsets[role] = fmt.Sprintf("%q in Service.Tags", role)
	}
	c.Services = append(c.Services, Service{Name: name, Callers: callers, Subsets: subsets})
}

func (c *Config) route(name, service, role string) {
	c.Routes = append(c.Routes, Redirect{Route: name, Service: service, Subset: subset(role)})
}
