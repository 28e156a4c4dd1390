package permit

import (
	"container/list"
	"crypto/sha256"
	"time"
)

// answers are the last few that were given. Beyond that the one goes that was not asked for for longest.
type answers struct {
	most  int
	all   map[[sha256.Size]byte]*list.Element
	order *list.List // of *entry, the one that was asked for last first
}

type entry struct {
	sum [sha256.Size]byte
	a   answer
	at  time.Time
}

func newAnswers(most int) answers {
	return answers{most, map[[sha256.Size]byte]*list.Element{}, list.New()}
}

func (s *answers) get(sum [sha256.Size]byte) (a answer, at time.Time, ok bool) {
	e := s.all[sum]
	if e == nil {
		return answer{}, time.Time{}, false
	}
	s.order.MoveToFront(e)
	found := e.Value.(*entry)
	return found.a, found.at, true
}

func (s *answers) put(sum [sha256.Size]byte, a answer, at time.Time) {
	s.remove(sum)
	s.all[sum] = s.order.PushFront(&entry{sum, a, at})
	if s.order.Len() > s.most {
		s.remove(s.order.Back().Value.(*entry).sum)
	}
}

func (s *answers) remove(sum [sha256.Size]byte) {
	if e := s.all[sum]; e != nil {
		s.order.Remove(e)
		delete(s.all, sum)
	}
}
