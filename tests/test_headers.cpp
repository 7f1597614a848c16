// Its precompiled headers are those of the tests.
int main() {}
