package redfish

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

type account struct {
	refused int // in a row
	locked  bool
	until   time.Time // zero: for good
}

type session struct {
	id   string
	user string
	used time.Time
	uses int
}

// OpenSessions returns how many sessions are open.
func (b *BMC) OpenSessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	return len(b.sessions)
}

// LoseSessions forgets all sessions, as a BMC does that restarts.
func (b *BMC) LoseSessions() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.sessions)
}

// Locked reports whether the account is locked.
func (b *BMC) Locked(user string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.locked(b.account(user))
}

func (b *BMC) account(user string) *account {
	if b.accounts[user] == nil {
		b.accounts[user] = &account{}
	}
	return b.accounts[user]
}

func (b *BMC) locked(a *account) bool {
	if a.locked && !a.until.IsZero() && !b.config.Now().Before(a.until) {
		*a = account{}
	}
	return a.locked
}

// expire removes the sessions that were idle for too long.
func (b *BMC) expire() {
	for token, s := range b.sessions {
		if b.config.Now().Sub(s.used) >= b.config.SessionTimeout {
			delete(b.sessions, token)
		}
	}
}

// login checks a password and counts the attempt.
func (b *BMC) login(user, password string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(user)
	right := subtle.ConstantTimeCompare([]byte(user), []byte(b.config.User)) == 1 &&
		subtle.ConstantTimeCompare([]byte(password), []byte(b.config.Password)) == 1
	if right && !b.faults.Unauthorized && !b.locked(a) {
		a.refused = 0
		b.logins.Accepted++
		return true
	}
	b.logins.Refused++
	a.refused++
	if after := b.faults.LockoutAfter; after > 0 && a.refused >= after && !b.locked(a) {
		a.locked = true
		b.logins.Lockouts++
		if b.faults.LockoutFor > 0 {
			a.until = b.config.Now().Add(b.faults.LockoutFor)
		}
	}
	return false
}

// authenticate returns the user of a request, and whether the request may go on.
func (b *BMC) authenticate(r *http.Request) (user string, allowed bool) {
	if token := r.Header.Get(sessionHeader); token != "" {
		return b.resume(token)
	}
	user, password, given := r.BasicAuth()
	if !given {
		return "", false
	}
	return user, b.login(user, password)
}

func (b *BMC) resume(token string) (user string, allowed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	s := b.sessions[token]
	if s == nil {
		return "", false
	}
	if most := b.faults.SessionUses; most > 0 && s.uses >= most {
		delete(b.sessions, token)
		return s.user, false
	}
	if b.faults.Unauthorized {
		return s.user, false
	}
	s.uses++
	s.used = b.config.Now()
	return s.user, true
}

// openSession answers the request for a session. It returns the user that asked too.
func (b *BMC) openSession(body []byte) (asked string, _ answer) {
	var credentials struct {
		UserName string `json:"UserName"`
		Password string `json:"Password"`
	}
	if err := json.Unmarshal(body, &credentials); err != nil {
		return "", refusal(http.StatusBadRequest, "Base.1.8.MalformedJSON", "The body isn't JSON.")
	}
	user := credentials.UserName
	if !b.login(user, credentials.Password) {
		return user, unauthorized()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	if b.faults.NoSessionLeft || len(b.sessions) >= b.config.MaxSessions {
		return user, noSessionLeft()
	}
	b.nextID++
	token := rand.Text()
	s := &session{id: strconv.Itoa(b.nextID), user: user, used: b.config.Now()}
	b.sessions[token] = s
	return user, answer{
		status: http.StatusCreated,
		header: map[string]string{sessionHeader: token, "Location": sessionList + "/" + s.id},
		body:   sessionResource(s),
	}
}

// closeSession removes a session and reports whether it existed.
func (b *BMC) closeSession(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for token, s := range b.sessions {
		if s.id == id {
			delete(b.sessions, token)
			return true
		}
	}
	return false
}

func (b *BMC) sessionByID(id string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	for _, s := range b.sessions {
		if s.id == id {
			return &session{id: s.id, user: s.user}
		}
	}
	return nil
}

func (b *BMC) sessionPaths() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	var paths []string
	for _, s := range b.sessions {
		paths = append(paths, sessionList+"/"+s.id)
	}
	return paths
}
