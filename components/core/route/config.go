package route

import (
	"fmt"

	"cadre.dev/core/group"
)

// Config is what Consul has to be told, beside the catalog.
type Config struct {
	// Services are the backends that routes lead to, sorted by name.
	Services []Service
	// Routes, sorted by group and name.
	Routes []Redirect
}

// Service is one backend: who may connect to it, and which subsets of it there are.
type Service struct {
	Name string
	// Callers are the identities that an intention allows, sorted; none: nobody.
	Callers []string
	// Subsets by their names, which are those of roles, and [Any]. Each has the filter that
	// its instances match; only those of them that are well count.
	Subsets map[string]string
}

// Redirect has what asks for a route by its name led to a subset of a service.
type Redirect struct {
	Route, Service, Subset string
}

// Any is the subset of all instances that are well, whatever their role. No role has its
// name: the validation of specs refuses it.
const Any = group.AnyRole

// subset is the name of the one of a role.
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
