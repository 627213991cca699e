package cluster

import "testing"

// TestReadRequest: a deletion without its body was cut off only if the API server failed.
func TestReadRequest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Request{
		`{"stage":"ResponseComplete","verb":"delete","responseStatus":{"code":500}}`:                                                           {Verb: "delete", Code: 500, Unread: true},
		`{"stage":"ResponseComplete","verb":"delete","responseStatus":{"code":500},"requestObject":{"preconditions":{"uid":"a"}}}`:             {Verb: "delete", Code: 500, UID: "a"},
		`{"stage":"ResponseComplete","verb":"delete","responseStatus":{"code":200}}`:                                                           {Verb: "delete", Code: 200},
		`{"stage":"ResponseComplete","verb":"delete","responseStatus":{"code":409},"requestObject":{"preconditions":{"resourceVersion":"7"}}}`: {Verb: "delete", Code: 409, Revision: "7"},
	} {
		got, is := readRequest([]byte(text))
		if !is || got.Verb != want.Verb || got.Code != want.Code || got.UID != want.UID || got.Revision != want.Revision || got.Unread != want.Unread {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
	if _, is := readRequest([]byte(`{"stage":"RequestReceived","verb":"delete"}`)); is {
		t.Error("a request without an answer counts")
	}
}
