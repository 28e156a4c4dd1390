package pods

import (
	"fmt"
	"sync"

	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// A store holds the containers of a node. It is a Source, for those who fill it.
type store struct {
	mu     sync.RWMutex
	byID   map[string]*Container
	ofPods map[string][]string // IDs by the UID that the API server has for the pod
	err    error
}

func newStore(err error) *store {
	return &store{byID: map[string]*Container{}, ofPods: map[string][]string{}, err: err}
}

// Container finds a container by its ID. That is enough: no two have the same.
func (s *store) Container(ref podpath.Ref) (Container, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.byID[ref.Container]
	if !ok {
		return Container{}, false
	}
	return *c, true
}

// Err says why it may know less than it should.
func (s *store) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// say sets what Err says.
func (s *store) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// put replaces what is known about a pod.
func (s *store) put(p *pod) error {
	containers := p.containers()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p.Metadata.UID)
	if len(s.byID)+len(containers) > mostContainers {
		return fmt.Errorf("%w: more than %d containers of one node", errNotPods, mostContainers)
	}
	for i := range containers {
		c := &containers[i]
		s.byID[c.ID] = c
		s.ofPods[p.Metadata.UID] = append(s.ofPods[p.Metadata.UID], c.ID)
	}
	return nil
}

// remove forgets a pod.
func (s *store) remove(p *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p.Metadata.UID)
}

func (s *store) forget(uid string) {
	for _, id := range s.ofPods[uid] {
		delete(s.byID, id)
	}
	delete(s.ofPods, uid)
}

// take replaces all that is known, and means that it is up to date.
func (s *store) take(all *store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.ofPods, s.err = all.byID, all.ofPods, nil
}
